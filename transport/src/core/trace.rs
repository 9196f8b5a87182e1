//! Trace context, as the W3C's recommendation has it: which trace something belongs to, and which span is its parent.
//!
//! It comes from peers, so it is bounded, and read strictly. What is wrong with it is never an error of the message that it
//! came with.

use std::fmt;

use super::headers::{self, Headers};

/// The headers that it travels in.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// How long a `traceparent` of the version that is written is.
const LENGTH: usize = 55;

/// The most bytes and members of a `tracestate`. Longer ones are left out, as the recommendation has it.
const MAX_STATE_BYTES: usize = 512;
const MAX_STATE_MEMBERS: usize = 32;

/// The bit that says that the trace is recorded; the only one that every version has.
const SAMPLED: u8 = 1;

/// Which trace a span belongs to, and which span: what [W3C trace context](https://www.w3.org/TR/trace-context/) says of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
    state: Option<Box<str>>,
}

/// Why something is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTraceContext {
    /// It is too short, or too long for its version.
    #[error("a traceparent of {bytes} bytes, and 55 are expected")]
    Length {
        /// How long it is.
        bytes: usize,
    },
    /// It is not made of lower-case hexadecimal digits with dashes between its four fields.
    #[error("a traceparent has four fields of lower-case hexadecimal digits, with dashes between them")]
    Malformed,
    /// Its version is `ff`.
    #[error("there is no version ff of a traceparent")]
    Version,
    /// Its trace has the number zero.
    #[error("the number of a trace is not zero")]
    NoTrace,
    /// Its span has the number zero.
    #[error("the number of a span is not zero")]
    NoSpan,
}

impl TraceContext {
    /// The context of a span: the number of its trace, its own, and the flags of the trace, of which 1 says that it is recorded.
    ///
    /// # Errors
    /// [`BadTraceContext::NoTrace`] and [`BadTraceContext::NoSpan`], if a number is zero.
    pub fn new(trace: [u8; 16], span: [u8; 8], flags: u8) -> Result<Self, BadTraceContext> {
        if trace == [0; 16] {
            return Err(BadTraceContext::NoTrace);
        }
        if span == [0; 8] {
            return Err(BadTraceContext::NoSpan);
        }
        Ok(Self { trace, span, flags, state: None })
    }

    /// Reads a `traceparent`. Of a version that is not known yet, it takes what version 00 has.
    ///
    /// # Errors
    /// See [`BadTraceContext`].
    pub fn parse(traceparent: &str) -> Result<Self, BadTraceContext> {
        let text = traceparent.as_bytes();
        let bytes = text.len();
        if bytes < LENGTH {
            return Err(BadTraceContext::Length { bytes });
        }
        let [version] = hex(&text[..2])?;
        if version == 0xff {
            return Err(BadTraceContext::Version);
        }
        if version == 0 && bytes != LENGTH {
            return Err(BadTraceContext::Length { bytes });
        }
        let is_dash = |at: usize| text.get(at).is_none_or(|byte| *byte == b'-');
        if ![2, 35, 52, LENGTH].into_iter().all(is_dash) {
            return Err(BadTraceContext::Malformed);
        }
        let [flags] = hex(&text[53..LENGTH])?;
        // What the other bits of a later version mean is not known.
        let flags = if version == 0 { flags } else { flags & SAMPLED };
        Self::new(hex(&text[3..35])?, hex(&text[36..52])?, flags)
    }

    /// With what tracing systems add of their own, a `tracestate`. One that is empty, or breaks the rules, is left out.
    #[must_use]
    pub fn with_state(self, tracestate: &str) -> Self {
        Self { state: is_state(tracestate).then(|| tracestate.into()), ..self }
    }

    /// The `traceparent`.
    pub fn traceparent(&self) -> String {
        self.to_string()
    }

    /// The `tracestate`, if there is one.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The number of the trace.
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The number of the span.
    pub fn span_id(&self) -> [u8; 8] {
        self.span
    }

    /// The flags. 1: the trace is recorded.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// As headers of a message.
    pub(crate) fn to_headers(&self) -> Vec<u8> {
        let parent = self.to_string();
        let state = self.state.as_deref().map(|state| (TRACESTATE, state.as_bytes()));
        headers::write([(TRACEPARENT, parent.as_bytes())].into_iter().chain(state))
    }

    /// What the headers of a message say. `None`: nothing of a trace.
    pub(crate) fn of_headers(headers: Headers<'_>) -> Option<Result<Self, BadTraceContext>> {
        let parent = std::str::from_utf8(headers.get(TRACEPARENT)?).map_err(|_| BadTraceContext::Malformed);
        let state = headers.get(TRACESTATE).and_then(|state| std::str::from_utf8(state).ok());
        Some(parent.and_then(Self::parse).map(|context| context.with_state(state.unwrap_or_default())))
    }
}

/// The `traceparent`, in version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// Bytes from lower-case digits, of which there are twice as many.
fn hex<const N: usize>(digits: &[u8]) -> Result<[u8; N], BadTraceContext> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(BadTraceContext::Malformed),
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

/// Whether this is a list of members, each a key with a value.
fn is_state(text: &str) -> bool {
    let is_key = |key: &str| {
        let mut bytes = key.bytes();
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_next = |byte: u8| is_first(byte) || b"_-*/@".contains(&byte);
        key.len() <= 256 && bytes.next().is_some_and(is_first) && bytes.all(is_next)
    };
    let is_value = |value: &str| {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
        (1..=256).contains(&value.len()) && value.bytes().all(is_plain)
    };
    let is_member = |member: &str| {
        // Members may be empty, and have blanks around them.
        let member = member.trim_matches([' ', '\t']);
        member.is_empty() || member.split_once('=').is_some_and(|(key, value)| is_key(key) && is_value(value))
    };
    let mut members = text.split(',');
    !text.is_empty()
        && text.len() <= MAX_STATE_BYTES
        && members.clone().count() <= MAX_STATE_MEMBERS
        && members.all(is_member)
}

#[cfg(test)]
mod tests {
    use callsign_store::random::SplitMix64;

    use super::*;

    /// The example of the recommendation.
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(text: &str) -> Result<TraceContext, BadTraceContext> {
        TraceContext::parse(text)
    }

    #[test]
    fn what_the_recommendation_shows_is_read_and_written_as_it_is() {
        let context = parse(PARENT).unwrap();
        assert_eq!(context.trace_id()[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(context.span_id(), [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
        assert_eq!((context.flags(), context.traceparent().as_str()), (1, PARENT));
        let not_sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        assert_eq!(parse(not_sampled).unwrap().flags(), 0);
        let state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
        assert_eq!(context.clone().with_state(state).tracestate(), Some(state));
        assert_eq!(context.tracestate(), None);
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let mut random = SplitMix64::new(7);
        for _ in 0..1000 {
            let [high, low, span, flags] = [(); 4].map(|()| random.draw());
            let trace = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
            let context = TraceContext::new(trace, span.to_be_bytes(), flags.to_be_bytes()[7]).unwrap();
            assert_eq!(parse(&context.traceparent()), Ok(context.clone()));
            let context = if high % 2 == 0 { context.with_state("a=b") } else { context };
            let headers = context.to_headers();
            let headers = Headers::read(&headers).unwrap();
            assert_eq!(TraceContext::of_headers(headers), Some(Ok(context)));
        }
    }

    #[test]
    fn each_defect_is_refused_as_what_it_is() {
        use BadTraceContext::{Length, Malformed, NoSpan, NoTrace, Version};
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zeros = (&"0".repeat(32), &"0".repeat(16));
        for (text, why) in [
            (String::new(), Length { bytes: 0 }),
            (PARENT[..54].to_owned(), Length { bytes: 54 }),
            (format!("{PARENT}-00"), Length { bytes: 58 }),
            (format!("{PARENT}-"), Length { bytes: 56 }),
            (format!("ff-{trace}-{span}-01"), Version),
            (format!("cc-{trace}-{span}-01x"), Malformed),
            (format!("0x-{trace}-{span}-01"), Malformed),
            (format!("00-{}-{span}-01", trace.to_uppercase()), Malformed),
            (format!("00-{trace}-{}-01", span.replace('f', "F")), Malformed),
            (format!("00-{trace}-{span}-0A"), Malformed),
            (format!("00_{trace}-{span}-01"), Malformed),
            (format!("00-{trace}_{span}-01"), Malformed),
            (format!("00-{trace}-{span}_01"), Malformed),
            (format!("00-{trace}-{}-01", span.replacen('0', "é", 1).replacen('0', "", 1)), Malformed),
            (format!("00-{}-{span}-01", zeros.0), NoTrace),
            (format!("00-{trace}-{}-01", zeros.1), NoSpan),
        ] {
            assert_eq!(parse(&text), Err(why), "{text}");
        }
    }

    #[test]
    fn of_a_later_version_it_takes_what_it_knows() {
        let later = PARENT.replacen("00", "cc", 1).replace("-01", "-0b");
        for text in [later.clone(), format!("{later}-what-comes-then"), format!("{later}-")] {
            assert_eq!(parse(&text).unwrap().traceparent(), PARENT);
        }
    }

    #[test]
    fn a_state_that_breaks_the_rules_is_left_out() {
        let context = || parse(PARENT).unwrap();
        let members = |count: usize| vec!["a=1"; count].join(",");
        let long = |bytes: usize| format!("a={},b={}", "x".repeat(256), "y".repeat(bytes - 261));
        for good in ["a=1", "a=1, b=2", "a=1,,\tb=2", "0@x/y*-_=~ z", &members(32), &long(512)] {
            assert_eq!(context().with_state(good).tracestate(), Some(good));
        }
        let wide = format!("a={}", "x".repeat(257));
        let key = format!("{}=1", "k".repeat(257));
        let bad = [
            "",
            "a",
            "=1",
            "a=",
            "A=1",
            "_a=1",
            "a=b=c",
            "a=é",
            "a=\n",
            &members(33),
            &long(513),
            &wide,
            &key,
        ];
        for bad in bad {
            assert_eq!(context().with_state(bad).tracestate(), None, "{bad}");
        }
    }

    #[test]
    fn headers_without_a_trace_say_nothing_and_wrong_ones_say_why() {
        assert_eq!(TraceContext::of_headers(Headers::NONE), None);
        let of = |name: &str, value: &[u8]| {
            let packed = headers::write([(name, value)].into_iter());
            TraceContext::of_headers(Headers::read(&packed).unwrap())
        };
        assert_eq!(of("tracestate", b"a=1"), None);
        assert_eq!(of("traceparent", b"00-4b"), Some(Err(BadTraceContext::Length { bytes: 5 })));
        assert_eq!(of("traceparent", &[0xff; 55]), Some(Err(BadTraceContext::Malformed)));
        assert!(of("traceparent", PARENT.as_bytes()).unwrap().is_ok());
    }

    #[test]
    fn a_key_of_a_state_may_be_as_long_as_its_value_and_no_longer() {
        for (length, is_good) in [(256, true), (257, false)] {
            for state in [format!("{}=1", "k".repeat(length)), format!("k={}", "1".repeat(length))] {
                let context = parse(PARENT).unwrap().with_state(&state);
                assert_eq!(context.tracestate().is_some(), is_good, "{state}");
            }
        }
    }
}
