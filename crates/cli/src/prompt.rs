//! Asks the user of the controlling terminal for values, apart from standard input and output. The terminal is restored after
//! Ctrl-C and Ctrl-Z, which `rpassword` and `dialoguer` do not do.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};

use execbox_mcp::config::{Input, InputKind, InputOption};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use nix::unistd::{getpgrp, tcgetpgrp};

use crate::output::terminal::safe_line;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    #[error("interrupted")]
    Interrupted,
    #[error("no answer")]
    NoAnswer,
    #[error("cannot use the terminal: {}", crate::error::reason(.0))]
    Io(#[from] io::Error),
}

/// The standard stream that must be a terminal. The controlling terminal alone is not enough: it may belong to a client with a
/// user interface of its own, which has started this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attended {
    /// Standard input, on which clients send messages.
    Input,
    /// Standard input or standard error.
    InputOrError,
    /// No stream is enough: questions are not asked.
    Never,
}

/// The controlling terminal.
pub(crate) struct Terminal(File);

impl Terminal {
    /// Opens the terminal if a user can answer: this process is in its foreground, and the streams are as required.
    pub(crate) fn open(attended: Attended) -> Option<Self> {
        let is_attended = match attended {
            Attended::Input => io::stdin().is_terminal(),
            Attended::InputOrError => io::stdin().is_terminal() || io::stderr().is_terminal(),
            Attended::Never => false,
        };
        let file = is_attended.then(|| File::options().read(true).write(true).open("/dev/tty"))?.ok()?;
        // In the background, reading would stop this process.
        (tcgetpgrp(&file).ok()? == getpgrp()).then_some(Self(file))
    }

    /// Prints a line.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(format!("{}\n", safe_line(text)).as_bytes())
    }

    /// Asks for the value of an input of the configuration `file`. The question is repeated after an invalid answer.
    pub(crate) fn ask(&mut self, input: &Input, file: &str) -> Result<String, PromptError> {
        self.note(&format!("execbox: {file} needs a value for the input {:?}", input.id))?;
        if let InputKind::Pick(options) = &input.kind {
            for (at, InputOption { label, value, .. }) in options.iter().enumerate() {
                let value = if label == value { String::new() } else { format!(" ({value})") };
                self.note(&format!("  {}) {label}{value}", at + 1))?;
            }
        }
        for _ in 0..MAX_ATTEMPTS {
            let question = question(input);
            let answer = match input.kind {
                InputKind::Prompt { password: true } => self.read_hidden(&question)?,
                _ => self.read_line(&question)?,
            };
            if let Some(value) = value(input, answer) {
                return Ok(value);
            }
        }
        Err(PromptError::NoAnswer)
    }

    /// Prints text and asks for one of `letters`, until one of them is typed.
    pub(crate) fn choose(&mut self, text: &str, question: &str, letters: &str) -> Result<char, PromptError> {
        for line in text.lines() {
            self.note(line)?;
        }
        for _ in 0..MAX_ATTEMPTS {
            let answer = self.read_line(question)?.to_lowercase();
            if let Some(letter) = answer.chars().next().filter(|letter| letters.contains(*letter)) {
                return Ok(letter);
            }
        }
        Err(PromptError::NoAnswer)
    }

    fn read_line(&mut self, question: &str) -> Result<String, PromptError> {
        self.0.write_all(question.as_bytes())?;
        let mut line = Line::default();
        loop {
            match self.read_byte()? {
                Some(b'\n') => return Ok(line.text()),
                Some(byte) => line.push(byte),
                None => return Err(PromptError::NoAnswer),
            }
        }
    }

    /// Reads a line without echo, which is off before the question appears. Keys that would stop this process arrive as
    /// characters, so that the terminal is restored.
    fn read_hidden(&mut self, question: &str) -> Result<String, PromptError> {
        let saved = termios::tcgetattr(&self.0).map_err(io::Error::from)?;
        let mut raw = saved.clone();
        raw.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON | LocalFlags::ISIG);
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        termios::tcsetattr(&self.0, SetArg::TCSAFLUSH, &raw).map_err(io::Error::from)?;
        let restored = Restored { terminal: self, saved };
        let answer = restored.terminal.read_keys(question);
        drop(restored);
        self.0.write_all(b"\n")?;
        answer
    }

    fn read_keys(&mut self, question: &str) -> Result<String, PromptError> {
        self.0.write_all(question.as_bytes())?;
        let mut line = Line::default();
        loop {
            match self.read_byte()? {
                Some(b'\n' | b'\r') => return Ok(line.text()),
                Some(INTERRUPT | QUIT | SUSPEND) => return Err(PromptError::Interrupted),
                None | Some(END) => return Err(PromptError::NoAnswer),
                Some(ERASE | BACKSPACE) => line.erase(),
                Some(KILL) => line = Line::default(),
                Some(byte) => line.push(byte),
            }
        }
    }

    fn read_byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(read) => return Ok((read == 1).then_some(byte[0])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Restores the settings of a terminal when dropped.
struct Restored<'a> {
    terminal: &'a mut Terminal,
    saved: Termios,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal.0, SetArg::TCSAFLUSH, &self.saved);
    }
}

/// A line that is being typed.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    fn push(&mut self, byte: u8) {
        if self.0.len() < MAX_ANSWER {
            self.0.push(byte);
        }
    }

    /// Removes the last character.
    fn erase(&mut self) {
        while self.0.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
    }

    fn text(self) -> String {
        String::from_utf8_lossy(&self.0).trim().to_owned()
    }
}

fn question(input: &Input) -> String {
    let description = input.description.as_deref().unwrap_or(&input.id);
    let default = match (&input.default, &input.kind) {
        (None, _) => String::new(),
        (Some(_), InputKind::Prompt { password: true }) => " [default: hidden]".to_owned(),
        (Some(default), _) => format!(" [default: {default}]"),
    };
    format!("{}: ", safe_line(&format!("{description}{default}")))
}

/// The value of an answer: a number or a name selects an option, and an empty answer is the default.
fn value(input: &Input, answer: String) -> Option<String> {
    let answer = if answer.is_empty() { input.default.clone()? } else { answer };
    if let InputKind::Pick(options) = &input.kind {
        let number = answer.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
        let option = options.iter().find(|option| option.value == answer || option.label == answer).or(number)?;
        return Some(option.value.clone());
    }
    input.accepts(&answer).then_some(answer)
}

/// The maximum number of times that a question is asked.
const MAX_ATTEMPTS: usize = 3;

/// The maximum length of an answer, in bytes; the rest is ignored.
const MAX_ANSWER: usize = 64 << 10;

/// The characters of Ctrl-C, Ctrl-\, Ctrl-Z, Ctrl-D, Backspace (two of them) and Ctrl-U.
const INTERRUPT: u8 = 0x03;
const QUIT: u8 = 0x1c;
const SUSPEND: u8 = 0x1a;
const END: u8 = 0x04;
const ERASE: u8 = 0x7f;
const BACKSPACE: u8 = 0x08;
const KILL: u8 = 0x15;

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: InputKind, default: Option<&str>) -> Input {
        Input::new("x", kind).default(default.map(str::to_owned))
    }

    #[test]
    fn answers_select_options_and_empty_answers_take_the_default() {
        let option = |label: &str, value: &str| InputOption::new(label, value);
        let options = vec![option("Europe", "eu"), option("2", "two"), option("America", "us")];
        let pick = input(InputKind::Pick(options), Some("us"));
        for (answer, expected) in
            [("1", Some("eu")), ("2", Some("two")), ("America", Some("us")), ("", Some("us")), ("0", None), ("4", None)]
        {
            assert_eq!(value(&pick, answer.to_owned()).as_deref(), expected, "{answer}");
        }
        let prompt = |default| input(InputKind::Prompt { password: false }, default);
        assert_eq!(value(&prompt(Some("d")), String::new()).as_deref(), Some("d"));
        assert_eq!(value(&prompt(Some("d")), "x".to_owned()).as_deref(), Some("x"));
        assert_eq!(value(&prompt(Some("")), String::new()).as_deref(), Some(""));
        assert_eq!(value(&prompt(None), String::new()), None);
    }

    #[test]
    fn a_password_is_not_in_its_question() {
        assert_eq!(question(&input(InputKind::Prompt { password: false }, Some("d"))), "x [default: d]: ");
        assert!(!question(&input(InputKind::Prompt { password: true }, Some("s3cret"))).contains("s3cret"));
    }

    #[test]
    fn whole_characters_are_erased() {
        let mut line = Line::default();
        "aé".bytes().for_each(|byte| line.push(byte));
        line.erase();
        assert_eq!(line.text(), "a");
        let mut line = Line::default();
        line.erase();
        assert_eq!(line.text(), "");
    }
}
