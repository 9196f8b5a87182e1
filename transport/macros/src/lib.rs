//! The attribute that makes an enum a message for actors of other nodes. Use it through `callsign`, which has what it expands to.

#![forbid(unsafe_code)]

mod expand;
mod parts;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes an enum a message that actors of this node and of others can be sent: `#[callsign::message("shop.pricing/1")]`.
///
/// The tag names the messages on all nodes. Change it when the messages change beyond what old nodes can decode.
///
/// - Each variant is something that an actor is told, or asked: a variant with an `RpcReplyPort` is a question. It has one at most.
/// - Every other field, and every answer, is of any type that serde can write and read. They travel as `MessagePack`.
/// - The name of a variant is what travels. You may add variants: a node that does not know one drops the message.
/// - Fields with names may have attributes of serde, such as `#[serde(default)]` for one that older nodes do not send.
///
/// What cannot be decoded is dropped, and the sender of a question gets no answer.
#[proc_macro_attribute]
pub fn message(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}
