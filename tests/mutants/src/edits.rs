//! The single edits that a source file offers.
//!
//! Each is small, and one that a hurried hand could make: another comparison, a negation, a number that is one more, a statement
//! that is missing. They are found in the syntax tree, so that no test, no constant and no pattern is touched.

use std::ops::Range;

use proc_macro2::Span;
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprIf, ExprLit, ExprMatch, ExprMethodCall, ExprUnary,
    ImplItemConst, ImplItemFn, Item, ItemConst, ItemFn, ItemImpl, ItemMod, ItemStatic, Lit, Pat, Stmt,
    TraitItemFn, Type, UnOp,
    spanned::Spanned as _,
    visit::{self, Visit},
};

/// One edit of one file. Where it is switched off, the code does what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// What it replaces, in bytes.
    pub(crate) range: Range<usize>,
    /// The line on which that begins, from 1.
    pub(crate) line: usize,
    /// What it does, for people.
    pub(crate) what: String,
    how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    /// The other expression in its place.
    Instead(String),
    /// The opposite of a condition.
    Negated,
    /// The guard of an arm lets everything through.
    Unguarded,
    /// The statement is not there.
    Without,
}

impl Edit {
    /// The text that takes the place of `original`: it is the edit where `on` says so, and `original` elsewhere.
    pub(crate) fn woven(&self, original: &str, on: &str) -> String {
        match &self.how {
            How::Instead(other) => format!("(if {on} {{ {other} }} else {{ {original} }})"),
            How::Negated => format!("({on} != ({original}))"),
            How::Unguarded => format!("({on} || ({original}))"),
            How::Without => format!("if !{on} {{ {original} }}"),
        }
    }
}

/// All edits of a file, in the order of its lines. Fails if it is no Rust.
pub(crate) fn edits_of(source: &str) -> Result<Vec<Edit>, syn::Error> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, edits: Vec::new() };
    finder.visit_file(&file);
    finder.edits.sort_by_key(|edit| edit.range.start);
    Ok(finder.edits)
}

struct Finder<'a> {
    source: &'a str,
    edits: Vec<Edit>,
}

impl Finder<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source[span.byte_range()]
    }

    fn add(&mut self, span: Span, what: impl Into<String>, how: How) {
        let (range, line) = (span.byte_range(), span.start().line);
        // What a macro made has no place of its own.
        if !range.is_empty() {
            self.edits.push(Edit { range, line, what: what.into(), how });
        }
    }

    fn instead(&mut self, whole: Span, part: Span, by: &str) {
        let (whole_range, part_range) = (whole.byte_range(), part.byte_range());
        let before = &self.source[whole_range.start..part_range.start];
        let after = &self.source[part_range.end..whole_range.end];
        let what = format!("`{}` becomes `{by}`", self.text(part));
        let other = format!("{before}{by}{after}");
        self.add(whole, what, How::Instead(other));
    }
}

/// Only compiled for tests, or only for some builds.
fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg") || attribute.path().is_ident("test"))
}

/// A chain that binds: neither may it be another operator's, nor may the whole become an operand.
fn binds(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

/// Whether nothing but a planted defect comes further: the build that judges has none.
fn is_planted(condition: &Expr) -> bool {
    match condition {
        Expr::Macro(call) => call.mac.path.is_ident("planted"),
        Expr::Binary(both) if matches!(both.op, BinOp::And(_)) => {
            is_planted(&both.left) || is_planted(&both.right)
        }
        _ => false,
    }
}

fn swapped(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        _ => return None,
    })
}

fn other_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "min" => "max",
        "max" => "min",
        "any" => "all",
        "all" => "any",
        "is_some_and" => "is_none_or",
        "is_none_or" => "is_some_and",
        "push_back" => "push_front",
        "pop_front" => "pop_back",
        "first_key_value" => "last_key_value",
        "last_key_value" => "first_key_value",
        _ => return None,
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(ItemFn { attrs, .. })
            | Item::Impl(ItemImpl { attrs, .. })
            | Item::Mod(ItemMod { attrs, .. }) => attrs.as_slice(),
            _ => &[],
        };
        if !is_conditional(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if function.sig.constness.is_none() {
            self.visit_block(&function.block);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if function.sig.constness.is_none() && !is_conditional(&function.attrs) {
            self.visit_block(&function.block);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.visit_block(block);
        }
    }

    // What people read in logs is not what is judged here.
    fn visit_item_impl(&mut self, implementation: &'ast ItemImpl) {
        let of = implementation.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if !of.is_some_and(|of| of.ident == "Debug" || of.ident == "Display") {
            visit::visit_item_impl(self, implementation);
        }
    }

    // Known when it is compiled.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            if let Stmt::Expr(expression, Some(_)) = statement {
                let may_go = match expression {
                    // What has a value is an expression that is edited as one.
                    Expr::Binary(binary) => swapped(&binary.op).is_none(),
                    Expr::MethodCall(_)
                    | Expr::Call(_)
                    | Expr::Assign(_)
                    | Expr::Await(_)
                    | Expr::Try(_)
                    | Expr::Return(_)
                    | Expr::Break(_)
                    | Expr::Continue(_) => true,
                    _ => false,
                };
                if may_go && !self.text(statement.span()).contains("planted!(") {
                    let text = self.text(statement.span()).split_whitespace().collect::<Vec<_>>().join(" ");
                    let text: String = text.chars().take(80).collect();
                    self.add(statement.span(), format!("`{text}` is missing"), How::Without);
                }
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if let Some(by) = swapped(&binary.op)
            && !binds(&binary.left)
            && !binds(&binary.right)
        {
            self.instead(binary.span(), binary.op.span(), by);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            self.instead(unary.span(), unary.op.span(), "");
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_if(&mut self, branch: &'ast ExprIf) {
        if is_planted(&branch.cond) {
            if let Some((_, otherwise)) = &branch.else_branch {
                self.visit_expr(otherwise);
            }
            return;
        }
        if !binds(&branch.cond) {
            self.add(branch.cond.span(), "the condition is negated", How::Negated);
        }
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_match(&mut self, choice: &'ast ExprMatch) {
        for (_, guard) in choice.arms.iter().filter_map(|arm| arm.guard.as_ref()) {
            if !binds(guard) && !is_planted(guard) {
                self.add(guard.span(), "the guard is not looked at", How::Unguarded);
            }
        }
        visit::visit_expr_match(self, choice);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !arm.guard.as_ref().is_some_and(|(_, guard)| is_planted(guard)) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        if let Some(by) = other_method(&name) {
            self.instead(call.span(), call.method.span(), by);
        } else if call.args.is_empty() && (name.starts_with("is_") || name.starts_with("has_")) {
            self.add(call.span(), format!("`{name}()` is negated"), How::Negated);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_lit(&mut self, literal: &'ast ExprLit) {
        match &literal.lit {
            Lit::Int(number) => {
                let text = self.text(number.span()).to_owned();
                self.add(
                    number.span(),
                    format!("`{text}` becomes one more"),
                    How::Instead(format!("{text} + 1")),
                );
            }
            Lit::Bool(value) => {
                self.add(value.span(), format!("`{}` becomes `{}`", value.value, !value.value), How::Negated);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every edit of a function's body, woven in alone.
    fn woven(body: &str) -> Vec<String> {
        let source = format!("fn f() {{\n{body}\n}}");
        let edits = edits_of(&source).unwrap();
        edits.iter().map(|edit| edit.woven(&source[edit.range.clone()], "on(7)")).collect()
    }

    #[test]
    fn a_comparison_becomes_another_one() {
        assert_eq!(woven("g(a <= b)"), ["(if on(7) { a < b } else { a <= b })"]);
    }

    #[test]
    fn a_condition_is_negated_and_one_that_binds_is_left_alone() {
        assert_eq!(woven("if a { g() }"), ["(on(7) != (a))"]);
        assert_eq!(woven("if let Some(a) = b && c { g() }"), Vec::<String>::new());
        assert_eq!(woven("if let Some(a) = b && a == c { g() }"), ["(if on(7) { a != c } else { a == c })"]);
    }

    #[test]
    fn a_statement_is_left_out_and_what_has_a_value_is_not() {
        assert_eq!(woven("g(a);\nh()"), ["if !on(7) { g(a); }"]);
        assert_eq!(woven("x = a;"), ["if !on(7) { x = a; }"]);
        assert_eq!(woven("x += a;"), ["if !on(7) { x += a; }"]);
    }

    #[test]
    fn numbers_guards_and_methods_are_edited() {
        assert_eq!(woven("g(3)"), ["(if on(7) { 3 + 1 } else { 3 })"]);
        assert_eq!(woven("match a { b if c(d) => e, _ => f }"), ["(on(7) || (c(d)))"]);
        assert_eq!(woven("g(a.min(b))"), ["(if on(7) { a.max(b) } else { a.min(b) })"]);
        assert_eq!(woven("g(a.is_open())"), ["(on(7) != (a.is_open()))"]);
        assert_eq!(woven("g(!a)"), ["(if on(7) { a } else { !a })"]);
        assert_eq!(woven("g(true)"), ["(on(7) != (true))"]);
    }

    #[test]
    fn what_only_a_planted_defect_does_is_not_edited() {
        assert_eq!(woven(r#"if planted!("a") { g(1); } else { h(a) }"#), Vec::<String>::new());
        assert_eq!(woven(r#"if planted!("a") && b { g(1); }"#), Vec::<String>::new());
        assert_eq!(woven(r#"match a { b if planted!("a") => g(1), _ => h(a) }"#), Vec::<String>::new());
        assert_eq!(woven(r#"a |= planted!("a");"#), Vec::<String>::new());
        assert_eq!(woven(r#"if b && !planted!("a") { h(a) }"#).len(), 3);
    }

    #[test]
    fn tests_constants_patterns_and_types_are_not_edited() {
        let source = "const A: [u8; 3] = [1; 3];
            #[cfg(test)] mod tests { fn f() { g(1); } }
            #[test] fn f() { g(1); }
            const fn h() -> u8 { 1 }
            impl Debug for A { fn fmt(&self) { g(1); } }
            impl A { const B: u8 = 1; #[cfg(feature = \"cores\")] fn f() { g(1); } }
            fn i(a: [u8; 3]) { match a { [1, ..] => j(), _ => k() } }";
        assert_eq!(edits_of(source).unwrap(), []);
    }
}
