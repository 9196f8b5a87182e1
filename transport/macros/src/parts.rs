//! What the attribute is given, taken apart.

use syn::{
    Attribute, Error, Field, Fields, GenericArgument, Ident, ItemEnum, LitStr, Path, PathArguments, Result,
    Token, Type,
    parse::{Parse, ParseStream},
    spanned::Spanned,
};

/// `"tag"`, and where the crate is for whoever has it under another name.
pub(crate) struct Arguments {
    pub(crate) tag: LitStr,
    pub(crate) home: Path,
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> Result<Self> {
        let tag: LitStr = input.parse().map_err(|error| {
            Error::new(
                error.span(),
                r#"a message needs a tag, the same on all nodes: #[callsign::message("shop.pricing/1")]"#,
            )
        })?;
        if tag.value().is_empty() {
            return Err(Error::new(tag.span(), "the tag of a message must not be empty"));
        }
        let mut home: Path = syn::parse_quote!(::callsign);
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            home = input.parse()?;
        }
        if input.is_empty() {
            Ok(Self { tag, home })
        } else {
            Err(input.error("nothing more is expected here"))
        }
    }
}

/// What an actor is told or asked by one variant.
pub(crate) struct Variant {
    pub(crate) name: Ident,
    /// Whether its fields have names.
    pub(crate) is_named: bool,
    /// In their order. The reply port is among them.
    pub(crate) parts: Vec<VariantPart>,
}

pub(crate) struct VariantPart {
    /// What it is bound to: its name, if it has one.
    pub(crate) bound: Ident,
    pub(crate) of: PartOf,
}

pub(crate) enum PartOf {
    /// Something that travels.
    Data { kind: Box<Type>, serde: Vec<Attribute> },
    /// Where the answer goes.
    Reply,
}

impl Variant {
    /// The fields that travel.
    pub(crate) fn data(&self) -> impl Iterator<Item = (&Ident, &Type, &[Attribute])> {
        self.parts.iter().filter_map(|part| match &part.of {
            PartOf::Data { kind, serde } => Some((&part.bound, &**kind, &serde[..])),
            PartOf::Reply => None,
        })
    }

    pub(crate) fn is_question(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.of, PartOf::Reply))
    }
}

/// Takes the variants apart, and what is serde's off them.
pub(crate) fn variants(message: &mut ItemEnum) -> Result<Vec<Variant>> {
    if !message.generics.params.is_empty() {
        let why = "a message has no generic parameters: its tag names one type on all nodes";
        return Err(Error::new(message.generics.span(), why));
    }
    message.variants.iter_mut().map(variant).collect()
}

fn variant(variant: &mut syn::Variant) -> Result<Variant> {
    if let Some(serde) = variant.attrs.iter().find(|attribute| attribute.path().is_ident("serde")) {
        let why = "the name of a variant is what travels, so a variant has no attributes of serde";
        return Err(Error::new(serde.span(), why));
    }
    let is_named = matches!(variant.fields, Fields::Named(_));
    let parts = variant.fields.iter_mut().enumerate().map(|(nth, field)| part(nth, field));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    if parts.iter().filter(|part| matches!(part.of, PartOf::Reply)).count() > 1 {
        return Err(Error::new(
            variant.span(),
            "a question is answered once: a variant has one RpcReplyPort at most",
        ));
    }
    Ok(Variant { name: variant.ident.clone(), is_named, parts })
}

fn part(nth: usize, field: &mut Field) -> Result<VariantPart> {
    let bound = field.ident.clone().unwrap_or_else(|| Ident::new(&format!("field{nth}"), field.span()));
    let is_serde = |attribute: &Attribute| attribute.path().is_ident("serde");
    let serde: Vec<_> = field.attrs.iter().filter(|attribute| is_serde(attribute)).cloned().collect();
    field.attrs.retain(|attribute| !is_serde(attribute));
    let is_reply = is_reply_port(&field.ty)?;
    if let Some(attribute) = serde.first().filter(|_| is_reply || field.ident.is_none()) {
        let why = "only fields with names, which travel, may have attributes of serde";
        return Err(Error::new(attribute.span(), why));
    }
    let of = if is_reply { PartOf::Reply } else { PartOf::Data { kind: Box::new(field.ty.clone()), serde } };
    Ok(VariantPart { bound, of })
}

/// Whether a type is an `RpcReplyPort`, which says what the answer is.
fn is_reply_port(kind: &Type) -> Result<bool> {
    let Type::Path(path) = kind else { return Ok(false) };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "RpcReplyPort") else {
        return Ok(false);
    };
    let says_what = match &last.arguments {
        PathArguments::AngleBracketed(given) => matches!(given.args.first(), Some(GenericArgument::Type(_))),
        _ => false,
    };
    if says_what {
        Ok(true)
    } else {
        Err(Error::new(kind.span(), "say what the answer is: RpcReplyPort<Answer>"))
    }
}
