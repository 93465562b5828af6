//! An error as text: the message, the place in the source, and the stack.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use execbox::{Position, StackFrame};

use crate::output::code_frame::Frame;
use crate::output::style::{self, Colors};
use crate::output::terminal::{safe, safe_line};

/// An error. Its control characters are escaped by [`Diagnostic::text`].
#[derive(Debug)]
pub(crate) struct Diagnostic<'a> {
    /// The code, printed as `error[CODE]`.
    pub(crate) code: Option<&'a str>,
    pub(crate) message: &'a str,
    pub(crate) place: Option<SourceLocation<'a>>,
    /// The stack frames, innermost first.
    pub(crate) stack: Vec<StackFrame>,
}

/// A position in a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceLocation<'a> {
    /// The name of the source.
    pub(crate) name: &'a str,
    pub(crate) code: &'a str,
    pub(crate) position: Position,
}

impl Diagnostic<'_> {
    /// The error as one or more lines. Omits the innermost frame if its source is shown: an error in a snippet is shown where the
    /// program calls the snippet.
    pub(crate) fn text(&self, colors: Colors) -> String {
        let message = safe(self.message);
        let mut title = Level::ERROR.primary_title(&*message);
        if let Some(code) = self.code {
            title = title.id(code);
        }
        let frame = self.place.and_then(|place| Some((place, Frame::around(place.code, place.position)?)));
        let (group, callers) = match &frame {
            Some((place, frame)) => {
                let innermost = self.stack.first().filter(|frame| is_at(frame, place));
                let function = innermost.and_then(|frame| frame.function.as_deref());
                let shown = usize::from(innermost.is_some());
                (title.element(snippet(frame, &safe_line(place.name), function)), &self.stack[shown..])
            }
            None => (Group::with_title(title), &self.stack[..]),
        };
        let renderer = if colors.0 { Renderer::styled().error(style::ERROR_PREFIX) } else { Renderer::plain() };
        let mut text = renderer.render(&[group]) + "\n";
        for frame in callers {
            text += &format!("    at {}\n", safe_line(&frame.to_string()));
        }
        text
    }
}

fn snippet<'a>(frame: &'a Frame, name: &str, function: Option<&str>) -> Snippet<'a, Annotation<'a>> {
    let label = function.map(|function| format!("in {}", safe_line(function)));
    Snippet::source(frame.text.as_str())
        .line_start(frame.first_line)
        .path(name.to_owned())
        .fold(false)
        .annotation(AnnotationKind::Primary.span(frame.span.clone()).label(label))
}

/// Whether a frame is at that place.
fn is_at(frame: &StackFrame, place: &SourceLocation<'_>) -> bool {
    frame.file == place.name && frame.position() == place.position
}
