//! What the attribute makes of an enum: the enum, and how it travels.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, Ident, ItemEnum, LitStr, Path};

use crate::parts::{Arguments, PartOf, Variant, VariantPart, variants};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (given, original) = (syn::parse2(arguments), item.clone());
    // The enum stays, so that whoever forgot something is told of that only.
    given.and_then(|given| expanded(&given, item)).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#original #error)
    })
}

fn expanded(arguments: &Arguments, item: TokenStream) -> Result<TokenStream, Error> {
    let Arguments { tag, home } = arguments;
    let mut message: ItemEnum = syn::parse2(item).map_err(|error| {
        Error::new(
            error.span(),
            "a message is an enum: each variant is something that an actor is told or asked",
        )
    })?;
    let variants = variants(&mut message)?;
    let (name, inside) = (&message.ident, quote!(#home::__message));
    let structs = variants.iter().filter_map(|variant| fields_with_names(variant, home));
    let written = variants.iter().map(|variant| written(variant, tag, &inside));
    let (questions, told): (Vec<&Variant>, Vec<_>) =
        variants.iter().partition(|variant| variant.is_question());
    let told = told.into_iter().map(|variant| read(variant, &inside));
    let questions = questions.into_iter().map(|variant| read(variant, &inside));
    Ok(quote! {
        #message

        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, unreachable_pub, unused_variables)]
        const _: () = {
            #(#structs)*

            impl #inside::ractor::Message for #name {
                fn serializable() -> bool {
                    true
                }

                fn serialize(self) -> ::core::result::Result<#inside::SerializedMessage, #inside::BoxedDowncastErr> {
                    match self { #(#written)* }
                }

                fn deserialize(
                    __message: #inside::SerializedMessage,
                ) -> ::core::result::Result<Self, #inside::BoxedDowncastErr> {
                    match __message {
                        #inside::SerializedMessage::Cast { variant: __variant, args: __args, .. } => match __variant.as_str() {
                            #(#told)*
                            _ => ::core::result::Result::Err(#inside::BoxedDowncastErr),
                        },
                        #inside::SerializedMessage::Call { variant: __variant, args: __args, reply: __reply, .. } => match __variant.as_str() {
                            #(#questions)*
                            _ => ::core::result::Result::Err(#inside::BoxedDowncastErr),
                        },
                        #inside::SerializedMessage::CallReply(..) => {
                            ::core::result::Result::Err(#inside::BoxedDowncastErr)
                        }
                    }
                }
            }

            impl #home::RemoteMessage for #name {
                const TAG: &'static str = #tag;
            }
        };
    })
}

/// The fields of a variant, as one value that travels, if they have names.
fn fields_with_names(variant: &Variant, home: &Path) -> Option<TokenStream> {
    let (name, serde) = (fields_of(variant)?, quote!(#home::__message::serde));
    let place = LitStr::new(&serde.to_string().replace(' ', ""), variant.name.span());
    let fields = variant.data().map(|(field, kind, attributes)| quote!(#(#attributes)* #field: #kind,));
    Some(quote! {
        #[derive(#serde::Serialize, #serde::Deserialize)]
        #[serde(crate = #place)]
        struct #name { #(#fields)* }
    })
}

fn fields_of(variant: &Variant) -> Option<Ident> {
    variant.is_named.then(|| format_ident!("FieldsOf{}", variant.name))
}

/// What is written and read of a variant, as a pattern and as an expression.
fn data(variant: &Variant) -> TokenStream {
    let fields = variant.data().map(|(bound, ..)| bound);
    if let Some(name) = fields_of(variant) { quote!(#name { #(#fields),* }) } else { quote!((#(#fields,)*)) }
}

/// The variant, as a pattern and as an expression.
fn whole(variant: &Variant) -> TokenStream {
    let (name, bound) = (&variant.name, variant.parts.iter().map(|part| &part.bound));
    if variant.is_named {
        quote!(Self::#name { #(#bound),* })
    } else if variant.parts.is_empty() {
        quote!(Self::#name)
    } else {
        quote!(Self::#name(#(#bound),*))
    }
}

fn reply(variant: &Variant) -> Option<&Ident> {
    let is_reply = |part: &&VariantPart| matches!(part.of, PartOf::Reply);
    variant.parts.iter().find(is_reply).map(|part| &part.bound)
}

fn tag_of(variant: &Variant) -> LitStr {
    LitStr::new(&variant.name.to_string(), variant.name.span())
}

fn written(variant: &Variant, message: &LitStr, inside: &TokenStream) -> TokenStream {
    let (tag, whole, data) = (tag_of(variant), whole(variant), data(variant));
    if let Some(reply) = reply(variant) {
        quote!(#whole => #inside::question(#message, #tag, &#data, #reply),)
    } else {
        quote!(#whole => #inside::told(#message, #tag, &#data),)
    }
}

/// Fields may have any name, so what comes is bound to names that none has.
fn read(variant: &Variant, inside: &TokenStream) -> TokenStream {
    let (tag, whole, data) = (tag_of(variant), whole(variant), data(variant));
    let kind = if let Some(name) = fields_of(variant) {
        quote!(#name)
    } else {
        let kinds = variant.data().map(|(_, kind, _)| kind);
        quote!((#(#kinds,)*))
    };
    let answers = reply(variant).map(|bound| quote!(let #bound = #inside::answers(__reply);));
    quote! {
        #tag => {
            let #data: #kind = #inside::read(&__args)?;
            #answers
            ::core::result::Result::Ok(#whole)
        }
    }
}
