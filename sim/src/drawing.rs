//! Drawings in SVG, element by element. Whatever is written or said in one is text, and never markup. Nothing is loaded from anywhere.
//!
//! [`timeline`](crate::timeline) draws runs of simulated worlds with it, and chaos those of real processes.

use std::fmt::{Display, Write};

/// What an element is like: names, and values.
pub type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// A drawing. What comes later is above what came before.
#[derive(Clone, Debug)]
pub struct Drawing {
    svg: String,
}

impl Drawing {
    /// An empty one.
    pub fn new(attributes: Attributes<'_>) -> Self {
        let mut drawing = Self { svg: String::new() };
        drawing.open("svg", &[("xmlns", &"http://www.w3.org/2000/svg")]);
        drawing.svg.pop();
        drawing.attributes(attributes);
        drawing.svg.push_str(">\n");
        drawing
    }

    /// With arrowheads, for lines whose style says `marker-end: url(#tip)`.
    #[must_use]
    pub fn with_arrows(mut self) -> Self {
        self.svg.push_str(
            "<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path d=\"M0 0 L6 3 L0 6 z\"/></marker></defs>\n",
        );
        self
    }

    /// A line.
    pub fn line(&mut self, attributes: Attributes<'_>) {
        self.element("line", attributes, "", None);
    }

    /// A rectangle, and what is said of it when somebody points there.
    pub fn rect(&mut self, attributes: Attributes<'_>, title: Option<&str>) {
        self.element("rect", attributes, "", title);
    }

    /// A text, and what is said of it when somebody points there.
    pub fn text(&mut self, attributes: Attributes<'_>, text: &str, title: Option<&str>) {
        self.element("text", attributes, text, title);
    }

    fn element(&mut self, tag: &str, attributes: Attributes<'_>, text: &str, title: Option<&str>) {
        self.open(tag, attributes);
        if text.is_empty() && title.is_none() {
            self.svg.pop();
            self.svg.push_str("/>\n");
            return;
        }
        self.svg.push_str(&escaped(text));
        if let Some(title) = title {
            // Writing to a string does not fail.
            let _ = write!(self.svg, "<title>{}</title>", escaped(title));
        }
        let _ = writeln!(self.svg, "</{tag}>");
    }

    fn open(&mut self, tag: &str, attributes: Attributes<'_>) {
        let _ = write!(self.svg, "<{tag}");
        self.attributes(attributes);
        self.svg.push('>');
    }

    fn attributes(&mut self, attributes: Attributes<'_>) {
        for (name, value) in attributes {
            let _ = write!(self.svg, " {name}=\"{}\"", escaped(&value.to_string()));
        }
    }

    /// The drawing as a file of its own.
    pub fn svg(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    /// The drawing in a page of HTML, with this style.
    pub fn page(self, title: &str, style: &str) -> String {
        let (title, svg) = (escaped(title), self.svg());
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{style}</style></head>\n\
             <body><h1>{title}</h1>\n{svg}</body></html>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_closed_and_nothing_in_it_is_markup() {
        let mut drawing = Drawing::new(&[("width", &7)]).with_arrows();
        drawing.line(&[("x1", &format_args!("{:.1}", 1.25)), ("class", &"a\" onclick=\"b")]);
        drawing.rect(&[("x", &1)], Some("<script>"));
        drawing.rect(&[("x", &2)], None);
        drawing.text(&[("x", &3)], "a < b & c", Some("\"d\""));
        drawing.text(&[], "e", None);
        let page = drawing.clone().page("f > g", "text { font: 11px monospace }");
        let svg = drawing.svg();
        assert!(page.contains(&svg) && page.contains("<h1>f &gt; g</h1>") && page.contains("<style>text {"));
        let lines: Vec<_> = svg.lines().collect();
        assert_eq!(lines[0], "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"7\">");
        assert!(lines[1].starts_with("<defs><marker id=\"tip\" ") && lines[1].ends_with("</marker></defs>"));
        let rest = [
            "<line x1=\"1.2\" class=\"a&quot; onclick=&quot;b\"/>",
            "<rect x=\"1\"><title>&lt;script&gt;</title></rect>",
            "<rect x=\"2\"/>",
            "<text x=\"3\">a &lt; b &amp; c<title>&quot;d&quot;</title></text>",
            "<text>e</text>",
            "</svg>",
        ];
        assert_eq!(lines[2..], rest);
    }
}
