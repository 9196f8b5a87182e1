//! The cores, for the simulator. No promise is made of anything in here.

pub use crate::core::{
    frame::{Farewell, Frame},
    link::{Effect as LinkEffect, Input as LinkInput, Link},
    links::{Effect, Input, Links},
};
