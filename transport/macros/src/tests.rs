//! What is said of an enum that cannot be a message.

use quote::quote;

use crate::expand::expand;

fn said(arguments: proc_macro2::TokenStream, item: proc_macro2::TokenStream) -> String {
    expand(arguments, item).to_string()
}

#[test]
fn what_is_missing_or_too_much_is_said_in_words_and_the_enum_stays() {
    let plain = || {
        quote!(
            enum M {
                Set(u64),
            }
        )
    };
    for (arguments, item, why) in [
        (quote!(), plain(), "a message needs a tag, the same on all nodes"),
        (quote!(7), plain(), "a message needs a tag, the same on all nodes"),
        (quote!(""), plain(), "the tag of a message must not be empty"),
        (quote!("t" "u"), plain(), "nothing more is expected here"),
        (
            quote!("t"),
            quote!(
                struct M(u64);
            ),
            "a message is an enum",
        ),
        (
            quote!("t"),
            quote!(
                enum M<T> {
                    Set(T),
                }
            ),
            "a message has no generic parameters",
        ),
        (
            quote!("t"),
            quote!(
                enum M {
                    Ask(RpcReplyPort<u8>, ractor::RpcReplyPort<u8>),
                }
            ),
            "a variant has one RpcReplyPort at most",
        ),
        (
            quote!("t"),
            quote!(
                enum M {
                    Ask(RpcReplyPort),
                }
            ),
            "say what the answer is",
        ),
        (
            quote!("t"),
            quote!(
                enum M {
                    #[serde(rename = "x")]
                    Set,
                }
            ),
            "a variant has no attributes of serde",
        ),
        (
            quote!("t"),
            quote!(
                enum M {
                    Set(#[serde(default)] u64),
                }
            ),
            "only fields with names",
        ),
        (
            quote!("t"),
            quote!(
                enum M {
                    Ask {
                        #[serde(default)]
                        port: RpcReplyPort<u8>,
                    },
                }
            ),
            "only fields with names",
        ),
    ] {
        let said = said(arguments.clone(), item.clone());
        assert!(said.contains("compile_error") && said.contains(why), "{item}: {said}");
        assert!(said.starts_with(&item.to_string()), "{said}");
    }
}

#[test]
fn another_name_of_the_crate_is_taken_and_what_is_serdes_goes_to_the_fields_that_travel() {
    let item = quote!(
        enum M {
            Set {
                #[serde(default)]
                to: u64,
            },
        }
    );
    let made = said(quote!("t", crate = other::place), item);
    assert!(!made.contains("compile_error") && !made.contains(":: callsign"), "{made}");
    assert!(made.contains("other :: place :: RemoteMessage for M"), "{made}");
    let (before, behind) = made.split_once("struct FieldsOfSet").unwrap();
    assert!(!before.contains("default") && behind.contains("# [serde (default)]"), "{made}");
    assert!(before.contains(r#"crate = "other::place::__message::serde""#), "{made}");
}
