//! Seeded JSON text with everything in it that a careless program changes: white space, escapes, odd numbers, the order
//! and the repetition of names.

/// A small generator of numbers, the same on every machine (splitmix64).
pub struct Rng(u64);

impl Rng {
    /// One of the independent sequences of a seed.
    pub fn new(seed: u64, sequence: u64) -> Self {
        let mut rng = Self(seed ^ sequence.wrapping_mul(0xA24B_AED4_963E_E407));
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n + 1));
        }
    }
}

/// Which line breaks may stand between tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// CR and LF.
    Any,
    /// CR alone: the sender writes lines.
    Cr,
}

const NUMBERS: [&str; 32] = [
    "0",
    "-0",
    "-0.0",
    "0.0",
    "0e0",
    "1e400",
    "-1E+400",
    "1e-400",
    "5e-324",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "1.0",
    "1.10",
    "100",
    "1e2",
    "1E2",
    "1e+2",
    "1e02",
    "0.1",
    "0.30000000000000004",
    "0.1000000000000000055511151231257827",
    "3.141592653589793238462643383279",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "-999999999999999999999999999999999999999",
    "12345678.90",
];

/// Halves of surrogates first, then every escape, pairs, what some readers take for a line end, the same bare.
const PIECES: [&str; 44] = [
    r"\ud800",
    r"\udc00 \ud800",
    r#"\""#,
    r"\\",
    r"\/",
    "/",
    r"\b",
    r"\f",
    r"\n",
    r"\r",
    r"\t",
    r"\u0000",
    r"\u000a",
    r"\u000D",
    r"\u001f",
    r"\u0022",
    r"\u005c",
    r"\u002f",
    r"\u0041",
    r"\u00e9",
    r"\u00E9",
    r"\u007f",
    r"\u0085",
    r"\u2028",
    r"\uFEFF",
    r"\uFFFF",
    r"\ud83d\ude00",
    r"\uD83D\uDE00",
    "\u{7f}",
    "\u{85}",
    "\u{2028}\u{2029}",
    "\u{feff}",
    "\u{ffff}",
    "é",
    "e\u{301}",
    "ß你好",
    "😀👩\u{200d}👩",
    "\u{10ffff}",
    "<script>&'",
    "data: ",
    r#"{\"}'["#,
    " ",
    "[1e400,-0]",
    r#"\n{\"jsonrpc\":\"2.0\"}\n"#,
];

/// Writes JSON text.
pub struct Writer<'r> {
    pub rng: &'r mut Rng,
    pub breaks: Breaks,
    pub out: Vec<u8>,
}

impl<'r> Writer<'r> {
    pub fn new(rng: &'r mut Rng, breaks: Breaks) -> Self {
        Self { rng, breaks, out: Vec::with_capacity(512) }
    }

    pub fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// White space between tokens, mostly none.
    pub fn white(&mut self) {
        if !self.rng.once_in(6) {
            return;
        }
        let all: [&str; 8] = [" ", "  ", "\t", "\r", " \r ", "\n", "\r\n", "\n\n  \t"];
        let usable = match self.breaks {
            Breaks::Any => &all[..],
            Breaks::Cr => &all[..5],
        };
        let text = self.rng.pick(usable);
        self.put(text);
    }

    /// A value of any shape.
    pub fn value(&mut self, depth: usize) {
        match self.rng.below(if depth == 0 { 7 } else { 10 }) {
            0 => self.number(),
            1 | 2 => self.any_number(),
            3 | 4 => self.string(),
            5 => {
                let word = self.rng.pick(&["true", "false", "null"]);
                self.put(word);
            }
            6 => {
                let empty = self.rng.pick(&["{}", "[]", "{ }", "[ ]", "\"\""]);
                self.put(empty);
            }
            7 => self.array(depth - 1),
            _ => self.object(depth - 1),
        }
    }

    fn number(&mut self) {
        let number = self.rng.pick(&NUMBERS);
        self.put(number);
    }

    fn any_number(&mut self) {
        let text = match self.rng.below(4) {
            0 => (self.rng.next() as i64).to_string(),
            1 => self.rng.next().to_string(),
            2 => format!("{}.{:07}e{}", self.rng.below(1000), self.rng.below(10_000_000), self.rng.below(800)),
            _ => self.rng.below(100_000).to_string(),
        };
        self.put(&text);
    }

    /// A string, quotes included.
    pub fn string(&mut self) {
        self.put("\"");
        self.content(&PIECES);
        self.put("\"");
    }

    fn content(&mut self, pieces: &[&str]) {
        for _ in 0..self.rng.below(5) {
            if self.rng.once_in(2) {
                let piece = self.rng.pick(pieces);
                self.put(piece);
            } else {
                let letter = char::from(b'a' + u8::try_from(self.rng.below(26)).expect("a letter"));
                let word: String = std::iter::repeat_n(letter, 1 + self.rng.below(8)).collect();
                self.put(&word);
            }
        }
    }

    fn array(&mut self, depth: usize) {
        self.put("[");
        for n in 0..self.rng.below(5) {
            if n != 0 {
                self.put(",");
            }
            self.white();
            self.value(depth);
            self.white();
        }
        self.put("]");
    }

    /// An object whose names come in no order and may come twice.
    pub fn object(&mut self, depth: usize) {
        self.put("{");
        let mut earlier: Option<Vec<u8>> = None;
        for n in 0..self.rng.below(6) {
            if n != 0 {
                self.put(",");
            }
            self.white();
            let start = self.out.len();
            match &earlier {
                Some(name) if self.rng.once_in(4) => self.out.extend_from_slice(name),
                _ => self.string(),
            }
            earlier = Some(self.out[start..].to_vec());
            self.white();
            self.put(":");
            self.white();
            self.value(depth);
            self.white();
        }
        self.put("}");
    }

    /// A value that is hard for its size: nested close to the limit, or long.
    pub fn heavy(&mut self, bytes: usize) {
        if self.rng.once_in(2) {
            let depth = 200 + self.rng.below(40);
            self.put(&"[".repeat(depth));
            self.number();
            self.put(&"]".repeat(depth));
            return;
        }
        let start = self.out.len();
        self.put("\"");
        while self.out.len() - start < 400 {
            self.content(&PIECES);
        }
        let chunk = self.out[start + 1..].to_vec();
        while self.out.len() - start < bytes {
            self.out.extend_from_slice(&chunk);
        }
        self.put("\"");
    }

    /// The members of an object in random order: raw name, and what writes the value.
    pub fn members(&mut self, mut members: Vec<Member<'_>>) {
        self.rng.shuffle(&mut members);
        self.put("{");
        for (n, member) in members.into_iter().enumerate() {
            if n != 0 {
                self.put(",");
            }
            self.white();
            self.put(&member.name);
            self.white();
            self.put(":");
            self.white();
            (member.write)(self);
            self.white();
        }
        self.put("}");
    }

    /// A name that differs from every other with another number, however it is read. Without halves of surrogates:
    /// such a name at a level that everybody reads is beyond most readers, the recorder's included.
    pub fn fresh_name(&mut self, number: usize) -> String {
        let mut name = Writer::new(self.rng, self.breaks);
        name.put("\"x");
        name.content(&PIECES[2..]);
        name.put(&format!("#{number}\""));
        String::from_utf8(name.out).expect("text")
    }
}

/// A member to be written.
pub struct Member<'a> {
    name: String,
    write: Box<dyn FnOnce(&mut Writer<'_>) + 'a>,
}

impl<'a> Member<'a> {
    /// `name` is given as written, with its quotes.
    pub fn new(name: impl Into<String>, write: impl FnOnce(&mut Writer<'_>) + 'a) -> Self {
        Self { name: name.into(), write: Box::new(write) }
    }

    /// A member with ready text.
    pub fn text(name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = value.into();
        Self::new(name, move |out| out.put(&value))
    }
}
