//! A small JSON parser, as a guest without dependencies might have it.

pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    pub fn size(&self) -> u32 {
        match self {
            Value::Null => 1,
            Value::Bool(b) => 1 + u32::from(*b),
            Value::Number(n) => *n as u32,
            Value::Text(s) => s.len() as u32,
            Value::List(l) => l.iter().map(Value::size).sum(),
            Value::Object(o) => o.iter().map(|(k, v)| k.len() as u32 + v.size()).sum(),
        }
    }
}

pub fn parse(text: &str) -> Option<Value> {
    let mut p = Parser { bytes: text.as_bytes(), at: 0 };
    let v = p.value()?;
    p.space();
    (p.at == p.bytes.len()).then(|| v)
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, word: &str) -> Option<()> {
        self.space();
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn value(&mut self) -> Option<Value> {
        self.space();
        match self.bytes.get(self.at)? {
            b'n' => self.eat("null").map(|_| Value::Null),
            b't' => self.eat("true").map(|_| Value::Bool(true)),
            b'f' => self.eat("false").map(|_| Value::Bool(false)),
            b'"' => self.text().map(Value::Text),
            b'[' => self.list(),
            b'{' => self.object(),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[start..self.at]).ok()?.parse().ok().map(Value::Number)
    }

    fn text(&mut self) -> Option<String> {
        self.eat("\"")?;
        let mut out = Vec::new();
        loop {
            let c = *self.bytes.get(self.at)?;
            self.at += 1;
            match c {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    out.push(match *self.bytes.get(self.at)? {
                        b'n' => b'\n',
                        b't' => b'\t',
                        c => c,
                    });
                    self.at += 1;
                }
                c => out.push(c),
            }
        }
    }

    fn list(&mut self) -> Option<Value> {
        self.eat("[")?;
        let mut out = Vec::new();
        if self.eat("]").is_some() {
            return Some(Value::List(out));
        }
        loop {
            out.push(self.value()?);
            if self.eat(",").is_none() {
                return self.eat("]").map(|_| Value::List(out));
            }
        }
    }

    fn object(&mut self) -> Option<Value> {
        self.eat("{")?;
        let mut out = Vec::new();
        if self.eat("}").is_some() {
            return Some(Value::Object(out));
        }
        loop {
            self.space();
            let key = self.text()?;
            self.eat(":")?;
            out.push((key, self.value()?));
            if self.eat(",").is_none() {
                return self.eat("}").map(|_| Value::Object(out));
            }
        }
    }
}
