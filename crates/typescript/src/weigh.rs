//! How deep and how costly a source can be to parse, found in one pass without recursion.
//!
//! The pass knows JavaScript's and TypeScript's tokens, and nothing of their grammar. It never says
//! less than the truth, and for source as people and models write it, not much more.
//!
//! # Steps
//!
//! Every construct that contains others has a token of its own, so the depth of any recursion is at
//! most the number of tokens that belong to constructs still open. Tokens are counted for each pair
//! of brackets, and forgotten where everything they opened must have ended: at the closing bracket,
//! at a `;` (unless `else` or `while` follows), and at a `,`. Not forgotten at a comma are the tokens
//! that open what a comma does not end: keywords, labels, and all while a `<` is open.
//!
//! # Work
//!
//! Where the parser guesses, what follows may be parsed once more. Three guesses matter:
//!
//! - `(` may open the parameters of an arrow function. A wrong guess is remembered for its place, so
//!   `n` of them around a byte read it `n` times more: they add up.
//! - `a <` may open type arguments (TypeScript). Not remembered: they multiply.
//! - In types, a pattern or a constraint is read twice. Also not remembered; but to get from there
//!   into another guess takes an initializer, a computed key, `infer`, or an import type with options,
//!   and those are seen here: they multiply too.
//!
//! # Where the tokens are not certain
//!
//! `/` divides or opens a regular expression, and after some tokens only a parser knows which. Where
//! both readings come to the same here (nothing but words and operators up to the next `/` on the
//! line), nothing is lost. Where they do not, and after an escape in a name or a string without an
//! end, the pass goes **blind**: it counts every byte of the rest as a token and every bracket as
//! never closed.

use crate::Fault;

/// Source up to this many bytes can be parsed as JavaScript without being weighed.
pub(crate) const SMALL: usize = 64;

/// The most tokens of unfinished constructs that a source may have at any place.
pub const MAX_STEPS: usize = 16 * 1024;

/// The most brackets that may be open at any place.
pub const MAX_NESTING: usize = 256;

/// The most bytes that the parser may come to read, counting again what it reads again.
pub const MAX_WORK: u64 = 16 * 1024 * 1024;

/// What [`weigh`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// How many tokens of unfinished constructs there are at the worst place.
    pub(crate) steps: usize,
    /// How many bytes the parser may come to read, counting again what it reads again.
    pub(crate) work: u64,
    pub(crate) guesses: Guesses,
}

/// Whether the TypeScript parser may read the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guesses {
    NotWeighed,
    Few,
    TooMany { at: usize },
}

impl Weight {
    /// What is true of every text of its length.
    pub(crate) fn unweighed(text: &str) -> Self {
        let length = text.len() as u64;
        Self { steps: text.len(), work: length * length, guesses: Guesses::NotWeighed }
    }
}

/// Weighs `text`. Too many steps, brackets, or bytes to read as JavaScript are a fault.
pub(crate) fn weigh(text: &str) -> Result<Weight, Fault> {
    let mut pass = Pass::new(text.as_bytes());
    pass.run()?;
    let (guesses, work) = match pass.too_many_guesses {
        Some(at) => (Guesses::TooMany { at }, pass.work),
        None => (Guesses::Few, pass.work_with_types),
    };
    Ok(Weight { steps: pass.most_steps, work, guesses })
}

/// What the token before was, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Punctuation that an operand follows. At the start, a semicolon.
    Punctuation(u8),
    Arrow,
    /// A name, or a keyword that stands for a value.
    Name,
    /// A keyword that is never a name and that an operand follows.
    Operating,
    Keyword(Keyword),
    /// A number, string, template or regular expression.
    Literal,
    Closing {
        bracket: u8,
        after: After,
    },
    /// Something that may end an operand or not.
    Unclear,
}

/// Keywords that do not say whether an operand follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// A condition in brackets follows, and then a statement.
    Condition,
    /// A block follows.
    Block,
    Import,
    Other,
}

/// What follows a closing bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Operand,
    Operator,
    Unclear,
}

/// What is open between one pair of brackets.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// The opening bracket: `(`, `[`, `{`, or `$` for a template's `${`.
    bracket: u8,
    after: After,
    /// Steps in the levels around this one.
    around: usize,
    /// Steps that a comma ends.
    loose: usize,
    /// Steps that only the end of a statement ends.
    firm: usize,
    /// Arrow functions guessed here and around.
    arrows: u64,
    /// How often this level is read because of types around it.
    readings: u64,
    /// `<` that are open.
    angles: u32,
    /// `infer` and decorators.
    infers: u32,
    /// After the `=` of an initializer.
    initializer: bool,
    /// It may be a pattern or parameters, where an initializer matters.
    pattern: bool,
}

impl Level {
    const OUTERMOST: Self = Self {
        bracket: 0,
        after: After::Unclear,
        around: 0,
        loose: 0,
        firm: 0,
        arrows: 0,
        readings: 1,
        angles: 0,
        infers: 0,
        initializer: false,
        pattern: false,
    };

    fn steps(&self) -> usize {
        self.around + self.loose + self.firm
    }

    /// How often this place is read because of types.
    fn readings_here(&self) -> u64 {
        let initializer = if self.pattern && self.initializer { 2 } else { 1 };
        self.readings
            .saturating_mul(u64::from(self.angles) + 1)
            .saturating_mul(u64::from(self.infers) + 1)
            .saturating_mul(initializer)
    }

    fn comma(&mut self) {
        if self.angles == 0 {
            self.loose = 0;
            self.infers = 0;
            self.initializer = false;
        }
    }

    fn statement_ended(&mut self) {
        self.firm = 0;
        self.angles = 0;
        self.comma();
    }
}

/// One pass over a source.
struct Pass<'a> {
    text: &'a [u8],
    at: usize,
    /// Work is counted up to here.
    counted: usize,
    /// The innermost level, and those around it.
    level: Level,
    around: Vec<Level>,
    before: Before,
    /// Whether `before` is a name that a colon would make a label.
    label: bool,
    /// Whether a line ended between `before` and here.
    line_ended: bool,
    most_steps: usize,
    work: u64,
    work_with_types: u64,
    too_many_guesses: Option<usize>,
}

impl<'a> Pass<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            counted: 0,
            level: Level::OUTERMOST,
            around: Vec::new(),
            before: Before::Punctuation(b';'),
            label: false,
            line_ended: false,
            most_steps: 0,
            work: 0,
            work_with_types: 0,
            too_many_guesses: None,
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        if self.text.starts_with(b"#!") {
            self.skip_line();
        }
        while let Some(byte) = self.byte(0) {
            match byte {
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'\n' | b'\r' => {
                    self.at += 1;
                    self.line_ended = true;
                }
                b'/' if self.byte(1) == Some(b'/') => self.skip_line(),
                b'/' if self.byte(1) == Some(b'*') => self.block_comment()?,
                _ if self.line_separator() => {
                    self.at += 3;
                    self.line_ended = true;
                }
                _ => {
                    self.begin()?;
                    self.token(byte)?;
                    self.line_ended = false;
                }
            }
        }
        self.count_work()
    }

    /// What a token does to the level before it is looked at.
    fn begin(&mut self) -> Result<(), Fault> {
        self.count_work()?;
        let next = &self.text[self.at..self.at + self.word_length(self.at)];
        let statement_ended = match self.before {
            Before::Punctuation(b';') => !matches!(next, b"else" | b"while"),
            Before::Closing { bracket: b'}', .. } => {
                matches!(self.level.bracket, 0 | b'{') && BEGIN_STATEMENTS.contains(&next)
            }
            _ => false,
        };
        if statement_ended {
            self.level.statement_ended();
        }
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<(), Fault> {
        match byte {
            b'/' => self.slash(),
            b'\'' | b'"' => self.string(byte),
            b'`' => {
                self.loose_step()?;
                self.at += 1;
                self.template()
            }
            b'(' | b'[' | b'{' => self.open(byte),
            b')' | b']' | b'}' => self.close(byte),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => self.word(),
            b'0'..=b'9' => {
                self.at += self.word_length(self.at);
                self.before = Before::Literal;
                self.loose_step()
            }
            b'\\' => self.go_blind("names with escapes are not supported in a source of this size"),
            0x80.. => {
                self.at += 1;
                while self.byte(0).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    self.at += 1;
                }
                self.before = Before::Unclear;
                self.loose_step()
            }
            _ => self.punctuation(byte),
        }
    }

    // ---- punctuation

    fn punctuation(&mut self, byte: u8) -> Result<(), Fault> {
        let next = self.byte(1);
        let doubled = next == Some(byte);
        let mut length = 1;
        let mut before = Before::Punctuation(byte);
        match byte {
            b',' => self.level.comma(),
            b'=' if next == Some(b'>') => (length, before) = (2, Before::Arrow),
            b'=' if doubled => length = 2,
            b'=' => self.level.initializer = true,
            b'<' if self.text[self.at..].starts_with(b"<!--") => return self.go_blind("`<!--` is not supported here"),
            b'<' | b'!' if next == Some(b'=') => length = 2,
            b'<' => self.level.angles = self.level.angles.saturating_add(1),
            b'>' => {
                self.level.angles = self.level.angles.saturating_sub(1);
                before = Before::Unclear;
            }
            b'&' | b'|' if doubled => (length, self.level.angles) = (2, 0),
            b'-' if self.line_ended && self.text[self.at..].starts_with(b"-->") => {
                return self.go_blind("`-->` is not supported here");
            }
            b'+' | b'-' if doubled => (length, before) = (2, Before::Unclear),
            b'!' if self.ends_operand() && !self.line_ended => before = Before::Unclear,
            b'@' => self.level.infers = self.level.infers.saturating_add(1),
            _ => {}
        }
        self.at += length;
        let firm = matches!(byte, b'<' | b'@') || (byte == b':' && self.label);
        self.before = before;
        self.label = false;
        match byte {
            b';' | b',' => Ok(()),
            _ if firm => self.firm_step(),
            _ => self.loose_step(),
        }
    }

    /// Whether the token before may end an operand.
    fn ends_operand(&self) -> bool {
        !matches!(self.before, Before::Punctuation(_) | Before::Arrow | Before::Operating)
    }

    /// A `/` that does not begin a comment.
    fn slash(&mut self) -> Result<(), Fault> {
        let operand_follows = match self.before {
            Before::Punctuation(b'.')
            | Before::Keyword(_)
            | Before::Unclear
            | Before::Closing { after: After::Unclear, .. } => None,
            Before::Punctuation(_)
            | Before::Arrow
            | Before::Operating
            | Before::Closing { after: After::Operand, .. } => Some(true),
            // On a new line it may begin one, if what came before was a type.
            _ if self.line_ended => None,
            _ => Some(false),
        };
        let end = self.end_of_regular_expression();
        let unclear = "it is not clear whether this `/` divides or begins a regular expression; put it in brackets";
        match (operand_follows, end) {
            (Some(true), Some(end)) => {
                self.at = end + self.word_length(end);
                self.before = Before::Literal;
                self.loose_step()
            }
            (Some(true), None) => self.go_blind("this regular expression does not end on its line"),
            (Some(false), _) | (None, None) => self.punctuation(b'/'),
            (None, Some(end)) if self.is_the_same_either_way(end) => {
                self.level.firm += end - self.at;
                self.at = end;
                self.before = Before::Unclear;
                self.firm_step()
            }
            (None, Some(_)) => self.go_blind(unclear),
        }
    }

    /// Where the regular expression ends that may begin here: after its second `/`, on this line.
    fn end_of_regular_expression(&self) -> Option<usize> {
        let mut at = self.at + 1;
        let mut in_class = false;
        loop {
            match *self.text.get(at)? {
                b'\n' | b'\r' => return None,
                0xe2 if is_line_separator(&self.text[at..]) => return None,
                b'/' if !in_class => return Some(at + 1),
                b'[' => in_class = true,
                b']' => in_class = false,
                b'\\' if !matches!(self.text.get(at + 1), Some(b'\n' | b'\r')) => at += 1,
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether the text from one `/` to the next, which ends at `end`, comes to the same here as a
    /// regular expression and as what stands between two divisions.
    fn is_the_same_either_way(&self, end: usize) -> bool {
        let between = &self.text[self.at + 1..end - 1];
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" \t_$.+-*%^~!?:|&>".contains(byte);
        let has = |word: &[u8]| between.windows(word.len()).any(|window| window == word);
        between.iter().all(plain)
            && !has(b"infer")
            && !has(b"import")
            && !matches!(self.text.get(end), Some(b'/' | b'*'))
    }

    // ---- brackets

    fn open(&mut self, bracket: u8) -> Result<(), Fault> {
        self.loose_step()?;
        let after = match (bracket, self.before) {
            (b'(', Before::Keyword(Keyword::Condition)) => After::Operand,
            (b'(' | b'[', _) => After::Operator,
            _ => After::Unclear,
        };
        let guess = u64::from(bracket == b'(' && self.arrow_possible());
        let twice = self.opens_expression_in_type(bracket);
        let pattern = bracket != b'{' || !self.opens_block();
        self.at += 1;
        self.push(Level {
            bracket,
            after,
            pattern,
            around: self.level.steps(),
            arrows: self.level.arrows + guess,
            readings: self.level.readings_here().saturating_mul(if twice { 2 } else { 1 }),
            ..Level::OUTERMOST
        })?;
        self.before = Before::Punctuation(bracket);
        Ok(())
    }

    fn push(&mut self, level: Level) -> Result<(), Fault> {
        if self.around.len() >= MAX_NESTING {
            return Err(Fault::new(format!("more than {MAX_NESTING} brackets are open here"), self.at - 1));
        }
        self.around.push(self.level);
        self.level = level;
        self.label = false;
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Result<(), Fault> {
        let opening = self.level.bracket;
        let matching = matches!((opening, bracket), (b'(', b')') | (b'[', b']') | (b'{' | b'$', b'}'));
        let Some(outer) = self.around.pop().filter(|_| matching) else {
            return self.go_blind("this bracket was not opened");
        };
        self.at += 1;
        self.before = Before::Closing { bracket, after: self.level.after };
        self.level = outer;
        if opening == b'$' { self.template() } else { Ok(()) }
    }

    /// Whether `(` may open the parameters of an arrow function and turn out not to.
    fn arrow_possible(&self) -> bool {
        if matches!(
            self.before,
            Before::Name
                | Before::Literal
                | Before::Keyword(Keyword::Condition)
                | Before::Closing { after: After::Operator, .. }
        ) {
            return false;
        }
        let mut at = self.skip_blanks(self.at + 1);
        let name = self.word_length(at);
        if name > 0 {
            at = self.skip_blanks(at + name);
        }
        match (self.text.get(at), name > 0) {
            (Some(b',' | b')' | b'/' | b'\\' | 0x80..) | None, _) | (Some(b'{' | b'[' | b'.' | b'@'), false) => true,
            (Some(b'='), true) => !matches!(self.text.get(at + 1), Some(b'=' | b'>')),
            _ => false,
        }
    }

    /// Whether `bracket` opens an expression in places where types are.
    fn opens_expression_in_type(&self, bracket: u8) -> bool {
        match (bracket, self.before) {
            (b'(', Before::Keyword(Keyword::Import)) => true,
            (b'[', _) if self.level.bracket == b'{' && self.line_ended => true,
            (
                b'[',
                Before::Punctuation(b'{' | b',' | b';' | b'*' | b'+' | b'-')
                | Before::Keyword(_)
                | Before::Closing { bracket: b'}', .. },
            ) => self.level.bracket == b'{',
            _ => false,
        }
    }

    /// Whether `{` opens statements, and not a pattern.
    fn opens_block(&self) -> bool {
        matches!(
            self.before,
            Before::Arrow
                | Before::Closing { bracket: b')' | b'}', .. }
                | Before::Punctuation(b';' | b'{')
                | Before::Keyword(Keyword::Block)
        )
    }

    // ---- words, strings, templates, comments

    fn word(&mut self) -> Result<(), Fault> {
        let length = self.word_length(self.at);
        let word = &self.text[self.at..self.at + length];
        self.at += length;
        let member = matches!(self.before, Before::Punctuation(b'.' | b'#'));
        let awaiting = word == b"await" && self.before == Before::Keyword(Keyword::Condition);
        self.label = !matches!(self.before, Before::Punctuation(b',' | b'{' | b'?' | b'(' | b'['));
        self.before = match word {
            _ if member => Before::Name,
            _ if awaiting => Before::Keyword(Keyword::Condition),
            _ => classify(word),
        };
        if word == b"infer" {
            self.level.infers = self.level.infers.saturating_add(1);
        }
        match self.before {
            Before::Name => self.loose_step(),
            _ => self.firm_step(),
        }
    }

    fn string(&mut self, quote: u8) -> Result<(), Fault> {
        self.loose_step()?;
        let mut at = self.at + 1;
        loop {
            match self.text.get(at) {
                Some(b'\\') if self.text[at + 1..].starts_with(b"\r\n") => at += 3,
                Some(b'\\') => at += 2,
                Some(b'\n' | b'\r') | None => return self.go_blind("this string does not end on its line"),
                Some(byte) if *byte == quote => break,
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        self.before = Before::Literal;
        Ok(())
    }

    /// The text of a template, up to its end or to the next `${`.
    fn template(&mut self) -> Result<(), Fault> {
        loop {
            match self.byte(0) {
                Some(b'\\') => self.at += 2,
                Some(b'`') => break,
                Some(b'$') if self.byte(1) == Some(b'{') => {
                    self.at += 2;
                    self.loose_step()?;
                    let (around, readings) = (self.level.steps(), self.level.readings_here());
                    let arrows = self.level.arrows;
                    self.push(Level { bracket: b'$', around, readings, arrows, ..Level::OUTERMOST })?;
                    self.before = Before::Punctuation(b'(');
                    return Ok(());
                }
                Some(_) => self.at += 1,
                None => {
                    self.at = self.text.len();
                    return Ok(());
                }
            }
        }
        self.at += 1;
        self.before = Before::Literal;
        Ok(())
    }

    fn block_comment(&mut self) -> Result<(), Fault> {
        let comment = &self.text[self.at + 2..];
        let Some(end) = comment.windows(2).position(|window| window == b"*/") else {
            return self.go_blind("this comment does not end");
        };
        let comment = &comment[..end];
        self.line_ended |= comment.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0xe2));
        self.at += end + 4;
        Ok(())
    }

    fn skip_line(&mut self) {
        while let Some(byte) = self.byte(0)
            && !matches!(byte, b'\n' | b'\r')
            && !self.line_separator()
        {
            self.at += 1;
        }
    }

    fn skip_blanks(&self, mut at: usize) -> usize {
        while self.text.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    }

    fn word_length(&self, at: usize) -> usize {
        let in_word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        self.text[at..].iter().take_while(in_word).count()
    }

    fn line_separator(&self) -> bool {
        is_line_separator(&self.text[self.at..])
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    // ---- counting

    fn loose_step(&mut self) -> Result<(), Fault> {
        self.level.loose += 1;
        self.count_steps(0)
    }

    fn firm_step(&mut self) -> Result<(), Fault> {
        self.level.firm += 1;
        self.count_steps(0)
    }

    fn count_steps(&mut self, more: usize) -> Result<(), Fault> {
        self.most_steps = self.most_steps.max(self.level.steps() + more);
        if self.most_steps <= MAX_STEPS {
            return Ok(());
        }
        let message = "this is nested too deeply, or one statement is too long (a semicolon may be missing)";
        Err(Fault::new(message, self.at.min(self.text.len())))
    }

    /// Counts the work since it was last counted, with what is open now.
    fn count_work(&mut self) -> Result<(), Fault> {
        let bytes = (self.at - self.counted) as u64;
        self.counted = self.at;
        self.add_work(bytes.saturating_mul(self.level.arrows + 1), self.level.readings_here())
    }

    fn add_work(&mut self, work: u64, readings: u64) -> Result<(), Fault> {
        self.work = self.work.saturating_add(work);
        self.work_with_types = self.work_with_types.saturating_add(work.saturating_mul(readings));
        if self.work > MAX_WORK {
            return Err(Fault::new("too many brackets that may belong to arrow functions are open here", self.at));
        }
        if self.work_with_types > MAX_WORK {
            self.too_many_guesses.get_or_insert(self.at);
        }
        Ok(())
    }

    /// Counts the worst of the rest, because its tokens are not certain. `message` says why, if the
    /// rest is too long for that.
    fn go_blind(&mut self, message: &str) -> Result<(), Fault> {
        let here = self.at;
        let rest = &self.text[here..];
        let count = |bytes: &[u8]| rest.iter().filter(|byte| bytes.contains(byte)).count();
        if self.around.len() + count(b"([{") > MAX_NESTING {
            self.too_many_guesses.get_or_insert(here);
        }
        let arrows = self.level.arrows + count(b"(") as u64 + 1;
        // `n` stands for `infer` and `import`.
        let doublings = u32::try_from(count(b"<=[@n")).unwrap_or(u32::MAX);
        let readings = self.level.readings_here().saturating_mul(2u64.saturating_pow(doublings));
        let bytes = rest.len();
        self.at = self.text.len();
        self.counted = self.at;
        let fault = |_| Fault::new(message, here);
        self.count_steps(bytes).map_err(fault)?;
        self.add_work((bytes as u64).saturating_mul(arrows), readings).map_err(fault)
    }
}

fn is_line_separator(text: &[u8]) -> bool {
    text.starts_with("\u{2028}".as_bytes()) || text.starts_with("\u{2029}".as_bytes())
}

/// Keywords that, after a block, can only begin another statement.
const BEGIN_STATEMENTS: [&[u8]; 16] = [
    b"async",
    b"class",
    b"const",
    b"enum",
    b"export",
    b"for",
    b"function",
    b"if",
    b"import",
    b"interface",
    b"let",
    b"return",
    b"switch",
    b"throw",
    b"try",
    b"var",
];

/// What `word` is where it is not the name of a property.
fn classify(word: &[u8]) -> Before {
    match word {
        b"return" | b"typeof" | b"instanceof" | b"in" | b"new" | b"delete" | b"void" | b"throw" | b"case" => {
            Before::Operating
        }
        b"if" | b"while" | b"for" | b"with" => Before::Keyword(Keyword::Condition),
        b"else" | b"do" | b"try" | b"finally" => Before::Keyword(Keyword::Block),
        b"import" => Before::Keyword(Keyword::Import),
        b"abstract" | b"accessor" | b"as" | b"asserts" | b"async" | b"await" | b"break" | b"catch" | b"class"
        | b"const" | b"continue" | b"debugger" | b"declare" | b"default" | b"defer" | b"enum" | b"export"
        | b"extends" | b"from" | b"function" | b"get" | b"global" | b"implements" | b"infer" | b"interface" | b"is"
        | b"keyof" | b"let" | b"module" | b"namespace" | b"of" | b"out" | b"override" | b"private" | b"protected"
        | b"public" | b"readonly" | b"satisfies" | b"set" | b"source" | b"static" | b"switch" | b"type" | b"unique"
        | b"using" | b"var" | b"yield" => Before::Keyword(Keyword::Other),
        _ => Before::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> usize {
        weigh(text).expect("it is not too much").steps
    }

    #[test]
    fn steps_grow_with_what_can_be_open() {
        for nest in ["!", "a+", "a=>", "if(a);else ", "a?b:", "new ", "if(a)b,c;else ", "a.", "f<a,", "a:", "é=>"] {
            let (few, many) = (steps(&nest.repeat(10)), steps(&nest.repeat(1010)));
            assert!(many >= few + 1000, "{nest}: {few} and {many}");
        }
    }

    #[test]
    fn steps_do_not_grow_with_what_has_ended() {
        for list in ["a+b;\n", "f(a,b);", "function f(){}\n", "if(a){b}else{c};", "a<b;", "let x:A<b>=1/2;//'\n"] {
            assert_eq!(steps(&list.repeat(10)), steps(&list.repeat(1010)), "{list}");
        }
        let array = |n| format!("[{}]", "{a:[1,'(',/[(]/],b:`(${c}`},".repeat(n));
        assert_eq!(steps(&array(10)), steps(&array(1010)));
    }

    #[test]
    fn slashes_are_told_apart() {
        // What is in a string or a regular expression opens nothing.
        for text in ["a / b; '('", "(a) / b; (/\\(/)", "if (a) /[/(]/.b; c", "x.if(a) / 2; '/('", "!/'(/.test(a)"] {
            let repeated = format!("{text};").repeat(1000);
            assert!(steps(&repeated) < 30, "{text}");
        }
        // Blind: the quote may be in a regular expression or begin a string.
        let blind = |rest: usize| format!("a++ /'/ b{}", ";(a)".repeat(rest));
        assert!(steps(&blind(1000)) > 3000);
        let refused = weigh(&blind(10_000)).expect_err("it is too long to be counted blindly");
        assert!(refused.message.starts_with("it is not clear whether this `/` divides"), "{}", refused.message);
        assert_eq!(refused.offset, 4);
    }

    #[test]
    fn guesses_multiply_in_types() {
        let guesses = |n| weigh(&"(a=b<".repeat(n)).expect("it is not deep").guesses;
        assert_eq!(guesses(4), Guesses::Few);
        assert!(matches!(guesses(20), Guesses::TooMany { .. }));
    }
}
