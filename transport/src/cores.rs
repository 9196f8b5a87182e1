//! The cores, for the simulator. No promise is made of anything in here.

pub use crate::core::{
    ends::{Effect as EndsEffect, End, Ends, Input as EndsInput, Word},
    frame::{Farewell, Frame, How, NotDelivered},
    headers::Headers,
    held::{Held, NoReference},
    link::{Effect as LinkEffect, Input as LinkInput, Link},
    links::{Effect, Input, Links},
};
