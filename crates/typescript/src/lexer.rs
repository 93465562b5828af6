//! Tokens of JavaScript and TypeScript.
//!
//! Some characters are different tokens in different contexts, which only the parser knows: `/` divides or begins a
//! regular expression, `}` closes a brace or continues a template, `>` closes type arguments or begins an
//! operator. The lexer reads such a character alone; the parser asks for the longer token where it fits
//! ([`regex`](Lexer::regex), [`template_rest`](Lexer::template_rest), [`operator`](Lexer::operator)). So no token is
//! ever guessed from the ones before it.

use crate::Fault;

pub(crate) const NO_HTML_COMMENTS: &str = "HTML comments (`<!--` and `-->`) are not supported; write `//`";

/// What a token is. Keywords are [`Name`](Kind::Name)s: most are keywords in some places only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    Name,
    PrivateName,
    Number,
    String,
    /// A template without `${`.
    Template,
    /// A template up to its first `${`.
    TemplateHead,
    BraceOpen,
    BraceClose,
    ParenOpen,
    ParenClose,
    BracketOpen,
    BracketClose,
    Dot,
    Ellipsis,
    Semicolon,
    Comma,
    Less,
    Greater,
    Equals,
    Arrow,
    Question,
    OptionalChain,
    Colon,
    Plus,
    Minus,
    Star,
    Slash,
    And,
    Or,
    Not,
    Tilde,
    /// `++` or `--`.
    Step,
    At,
    /// Any other operator between two operands.
    Operator,
    /// An assignment operator other than `=`.
    Assignment,
}

/// One token, by its place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Byte offsets.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// A line ends between the token before and this one.
    pub(crate) on_new_line: bool,
    /// Whether it is a name with escapes, which is never a keyword.
    pub(crate) escaped: bool,
}

/// Reads tokens from a text, from any offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexer<'s> {
    text: &'s str,
    bytes: &'s [u8],
    at: usize,
    /// Whether `<!--` and `-->` begin comments, as in scripts; they are errors with an explanation.
    html_comments: bool,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(text: &'s str, html_comments: bool) -> Self {
        let mut lexer = Self { text, bytes: text.as_bytes(), at: 0, html_comments };
        if text.starts_with("#!") {
            lexer.skip_line();
        }
        lexer
    }

    pub(crate) fn text(&self) -> &'s str {
        self.text
    }

    /// Continues at byte `at`.
    pub(crate) fn seek(&mut self, at: u32) {
        self.at = at as usize;
    }

    /// Where reading continues.
    pub(crate) fn position(&self) -> u32 {
        self.at as u32
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Result<Token, Fault> {
        let on_new_line = self.skip_blanks()?;
        let start = self.at;
        let Some(&byte) = self.bytes.get(start) else {
            return Ok(self.token(Kind::End, start, on_new_line));
        };
        let mut escaped = false;
        let kind = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'\\' | 0x80.. => {
                escaped = self.name()?;
                Kind::Name
            }
            b'0'..=b'9' => self.number()?,
            b'.' if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number()?,
            b'\'' | b'"' => self.string(byte)?,
            b'`' => {
                self.at += 1;
                if self.template_part(start)? { Kind::TemplateHead } else { Kind::Template }
            }
            b'#' => {
                self.at += 1;
                if !self.peek(0).is_some_and(begins_name) {
                    return Err(Fault::new("unexpected character `#`", start));
                }
                escaped = self.name()?;
                Kind::PrivateName
            }
            _ => {
                let (kind, length) = self.punctuator(byte)?;
                self.at += length;
                kind
            }
        };
        Ok(Token { escaped, ..self.token(kind, start, on_new_line) })
    }

    fn token(&self, kind: Kind, start: usize, on_new_line: bool) -> Token {
        Token { kind, start: start as u32, end: self.at as u32, on_new_line, escaped: false }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    // ---- tokens that depend on the context

    /// The regular expression that begins with `slash`.
    pub(crate) fn regex(&mut self, slash: Token) -> Result<Token, Fault> {
        let start = slash.start as usize;
        let unterminated = || Fault::new("unterminated regular expression", start);
        let mut in_class = false;
        self.at = start + 1;
        loop {
            let byte = self.peek(0).ok_or_else(unterminated)?;
            match byte {
                b'\n' | b'\r' => return Err(unterminated()),
                0xe2 if self.line_separator() => return Err(unterminated()),
                b'\\' if matches!(self.peek(1), Some(b'\n' | b'\r') | None) => return Err(unterminated()),
                b'\\' => self.at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        if self.peek(0).is_some_and(begins_name) && !self.blank_at(self.at) {
            self.name()?;
        }
        Ok(Token { end: self.at as u32, ..slash })
    }

    /// The rest of a template after the `}` at `brace`; true if another `${` ends it.
    pub(crate) fn template_rest(&mut self, brace: Token) -> Result<bool, Fault> {
        self.at = brace.end as usize;
        self.template_part(brace.start as usize)
    }

    /// The whole operator that begins with `<`, `>` or `/` at `token`, where an operator may stand.
    pub(crate) fn operator(&mut self, token: Token) -> Token {
        let rest = &self.bytes[token.start as usize..];
        let operators: &[(&[u8], Kind)] = match token.kind {
            Kind::Greater => &[
                (b">>>=", Kind::Assignment),
                (b">>>", Kind::Operator),
                (b">>=", Kind::Assignment),
                (b">>", Kind::Operator),
                (b">=", Kind::Operator),
                (b">", Kind::Operator),
            ],
            Kind::Less => &[(b"<", Kind::Operator)],
            Kind::Slash => &[(b"/=", Kind::Assignment), (b"/", Kind::Operator)],
            _ => return token,
        };
        let found = operators.iter().find(|(text, _)| rest.starts_with(text));
        let (length, kind) = found.map_or((1, token.kind), |(text, kind)| (text.len(), *kind));
        self.at = token.start as usize + length;
        Token { kind, end: self.at as u32, ..token }
    }

    // ---- the kinds of tokens

    fn punctuator(&self, byte: u8) -> Result<(Kind, usize), Fault> {
        let rest = &self.bytes[self.at..];
        let is = |text: &[u8]| rest.starts_with(text);
        Ok(match byte {
            b'{' => (Kind::BraceOpen, 1),
            b'}' => (Kind::BraceClose, 1),
            b'(' => (Kind::ParenOpen, 1),
            b')' => (Kind::ParenClose, 1),
            b'[' => (Kind::BracketOpen, 1),
            b']' => (Kind::BracketClose, 1),
            b';' => (Kind::Semicolon, 1),
            b',' => (Kind::Comma, 1),
            b':' => (Kind::Colon, 1),
            b'~' => (Kind::Tilde, 1),
            b'@' => (Kind::At, 1),
            b'>' => (Kind::Greater, 1),
            b'/' => (Kind::Slash, 1),
            b'.' if is(b"...") => (Kind::Ellipsis, 3),
            b'.' => (Kind::Dot, 1),
            b'?' if is(b"??=") => (Kind::Assignment, 3),
            b'?' if is(b"??") => (Kind::Operator, 2),
            b'?' if is(b"?.") && !rest.get(2).is_some_and(u8::is_ascii_digit) => (Kind::OptionalChain, 2),
            b'?' => (Kind::Question, 1),
            b'=' if is(b"===") => (Kind::Operator, 3),
            b'=' if is(b"==") => (Kind::Operator, 2),
            b'=' if is(b"=>") => (Kind::Arrow, 2),
            b'=' => (Kind::Equals, 1),
            b'!' if is(b"!==") => (Kind::Operator, 3),
            b'!' if is(b"!=") => (Kind::Operator, 2),
            b'!' => (Kind::Not, 1),
            b'<' if is(b"<<=") => (Kind::Assignment, 3),
            b'<' if is(b"<<") || is(b"<=") => (Kind::Operator, 2),
            b'<' => (Kind::Less, 1),
            b'+' if is(b"++") => (Kind::Step, 2),
            b'-' if is(b"--") => (Kind::Step, 2),
            b'+' | b'-' | b'%' | b'^' if is(&[byte, b'=']) => (Kind::Assignment, 2),
            b'+' => (Kind::Plus, 1),
            b'-' => (Kind::Minus, 1),
            b'%' | b'^' => (Kind::Operator, 1),
            b'*' if is(b"**=") => (Kind::Assignment, 3),
            b'*' if is(b"**") => (Kind::Operator, 2),
            b'*' if is(b"*=") => (Kind::Assignment, 2),
            b'*' => (Kind::Star, 1),
            b'&' | b'|' if is(&[byte, byte, b'=']) => (Kind::Assignment, 3),
            b'&' | b'|' if is(&[byte, byte]) => (Kind::Operator, 2),
            b'&' | b'|' if is(&[byte, b'=']) => (Kind::Assignment, 2),
            b'&' => (Kind::And, 1),
            b'|' => (Kind::Or, 1),
            _ => return Err(self.unexpected_character()),
        })
    }

    fn unexpected_character(&self) -> Fault {
        let character = self.text[self.at..].chars().next().unwrap_or_default();
        let message = match character {
            '“' | '”' | '„' | '«' | '»' => {
                format!("unexpected character `{character}`; write `\"` around strings")
            }
            '‘' | '’' | '‚' => format!("unexpected character `{character}`; write `'` around strings"),
            '–' | '—' | '−' => format!("unexpected character `{character}`; write `-`"),
            _ => format!("unexpected character `{}`", character.escape_debug()),
        };
        Fault::new(message, self.at)
    }

    /// Reads a name; true if it has escapes.
    fn name(&mut self) -> Result<bool, Fault> {
        let start = self.at;
        let mut escaped = false;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' => self.at += 1,
                b'\\' => {
                    let (_, end) = unicode_escape(self.text, self.at).ok_or_else(|| {
                        Fault::new("invalid escape in a name: expected `\\uXXXX` or `\\u{…}`", self.at)
                    })?;
                    self.at = end;
                    escaped = true;
                }
                0x80.. => {
                    let character = self.text[self.at..].chars().next().unwrap_or_default();
                    let in_name =
                        if self.at == start { may_start_name(character) } else { may_continue_name(character) };
                    if !in_name {
                        break;
                    }
                    self.at += character.len_utf8();
                }
                _ => break,
            }
        }
        if self.at == start { Err(self.unexpected_character()) } else { Ok(escaped) }
    }

    /// Reads a number. Accepts some invalid numbers, which the engine reports.
    fn number(&mut self) -> Result<Kind, Fault> {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_some_and(|byte| byte.is_ascii_digit() || byte == b'_') {
                lexer.at += 1;
            }
        };
        if self.peek(0) == Some(b'0') && self.peek(1).is_some_and(|byte| b"xXoObB".contains(&byte)) {
            self.at += 2;
            while self.peek(0).is_some_and(|byte| byte.is_ascii_hexdigit() || byte == b'_') {
                self.at += 1;
            }
        } else {
            digits(self);
            if self.peek(0) == Some(b'.') {
                self.at += 1;
                digits(self);
            }
            let exponent = match (self.peek(0), self.peek(1), self.peek(2)) {
                (Some(b'e' | b'E'), Some(b'0'..=b'9'), _) => 1,
                (Some(b'e' | b'E'), Some(b'+' | b'-'), Some(b'0'..=b'9')) => 2,
                _ => 0,
            };
            self.at += exponent;
            digits(self);
        }
        if self.peek(0) == Some(b'n') {
            self.at += 1;
        }
        match self.peek(0) {
            Some(byte) if byte.is_ascii_digit() || (begins_name(byte) && !self.blank_at(self.at)) => {
                Err(Fault::new("unexpected name directly after a number; is an operator missing?", start))
            }
            _ => Ok(Kind::Number),
        }
    }

    fn string(&mut self, quote: u8) -> Result<Kind, Fault> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(b'\\') if self.peek(1) == Some(b'\r') && self.peek(2) == Some(b'\n') => self.at += 3,
                Some(b'\\') => self.at += 2,
                Some(b'\n' | b'\r') | None => return Err(Fault::new("unterminated string", start)),
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(Kind::String);
                    }
                }
            }
        }
    }

    /// The text of a template, up to its end (false) or behind the next `${` (true).
    fn template_part(&mut self, start: usize) -> Result<bool, Fault> {
        loop {
            match self.peek(0) {
                Some(b'\\') => self.at += 2,
                Some(b'`') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(b'$') if self.peek(1) == Some(b'{') => {
                    self.at += 2;
                    return Ok(true);
                }
                Some(_) => self.at += 1,
                None => return Err(Fault::new("unterminated template", start)),
            }
        }
    }

    // ---- white space and comments

    /// Skips to the next token; true if a line ended before it.
    fn skip_blanks(&mut self) -> Result<bool, Fault> {
        let mut line_ended = self.at == 0;
        loop {
            let Some(byte) = self.peek(0) else {
                self.at = self.bytes.len();
                return Ok(line_ended);
            };
            match byte {
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'\n' | b'\r' => {
                    self.at += 1;
                    line_ended = true;
                }
                b'/' if self.peek(1) == Some(b'/') => self.skip_line(),
                b'/' if self.peek(1) == Some(b'*') => line_ended |= self.block_comment()?,
                b'<' if self.html_comments && self.bytes[self.at..].starts_with(b"<!--") => {
                    return Err(Fault::new(NO_HTML_COMMENTS, self.at));
                }
                b'-' if self.html_comments && line_ended && self.bytes[self.at..].starts_with(b"-->") => {
                    return Err(Fault::new(NO_HTML_COMMENTS, self.at));
                }
                0x80.. if self.line_separator() => {
                    self.at += 3;
                    line_ended = true;
                }
                0x80.. if self.blank_at(self.at) => {
                    self.at += self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                }
                _ => return Ok(line_ended),
            }
        }
    }

    /// Whether a blank outside ASCII stands at byte `at`.
    fn blank_at(&self, at: usize) -> bool {
        self.text[at..].chars().next().is_some_and(|c| !c.is_ascii() && (c.is_whitespace() || c == '\u{feff}'))
    }

    fn line_separator(&self) -> bool {
        self.bytes[self.at..].starts_with(&[0xe2, 0x80, 0xa8]) || self.bytes[self.at..].starts_with(&[0xe2, 0x80, 0xa9])
    }

    fn skip_line(&mut self) {
        while let Some(byte) = self.peek(0)
            && !matches!(byte, b'\n' | b'\r')
            && !self.line_separator()
        {
            self.at += 1;
        }
    }

    /// Skips a comment; true if a line ends in it.
    fn block_comment(&mut self) -> Result<bool, Fault> {
        let body = &self.text[self.at + 2..];
        let length = body.find("*/").ok_or_else(|| Fault::new("unterminated comment", self.at))?;
        self.at += length + 4;
        Ok(body[..length].contains(['\n', '\r', '\u{2028}', '\u{2029}']))
    }
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'\\' | 0x80..)
}

/// Whether a name may begin with `character`, as the Unicode property `ID_Start` tells.
fn may_start_name(character: char) -> bool {
    let only_at_the_start = matches!(character, '\u{e33}' | '\u{eb3}' | '\u{ff9e}' | '\u{ff9f}');
    unicode_ident::is_xid_start(character) || only_at_the_start || changes_when_normalized(character)
}

/// Whether `character` may stand in a name, as the Unicode property `ID_Continue` tells, and the specification of the language
/// (ECMA-262 §12.7).
fn may_continue_name(character: char) -> bool {
    unicode_ident::is_xid_continue(character)
        || matches!(character, '\u{200c}' | '\u{200d}')
        || changes_when_normalized(character)
}

/// The characters of names that the properties `XID_Start` and `XID_Continue` lack, because a name with one is no name when it
/// is normalized.
fn changes_when_normalized(character: char) -> bool {
    matches!(character, '\u{37a}' | '\u{309b}' | '\u{309c}' | '\u{fc5e}'..='\u{fc63}' | '\u{fdfa}' | '\u{fdfb}')
        || matches!(character, '\u{fe70}'..='\u{fe7e}') && u32::from(character).is_multiple_of(2)
}

/// The character of the `\uXXXX` or `\u{…}` at byte `at`, and where it ends.
pub(crate) fn unicode_escape(text: &str, at: usize) -> Option<(char, usize)> {
    let rest = text.get(at..)?.strip_prefix("\\u")?;
    let (digits, length) = match rest.strip_prefix('{') {
        Some(braced) => {
            let digits = &braced[..braced.find('}')?];
            (digits, digits.len() + 2)
        }
        None => (rest.get(..4)?, 4),
    };
    let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?;
    Some((char::from_u32(code)?, at + 2 + length))
}
