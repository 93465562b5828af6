//! The tools of the server itself, by layout and name.

use super::{Layout, ServerOptions};

/// A tool of the server itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnTool {
    Search,
    Describe,
    Call,
    /// Runs code.
    Execute,
    /// Runs code, and has the types in its description.
    Code,
}

impl Layout {
    pub(super) fn tools(self) -> &'static [OwnTool] {
        use OwnTool::{Call, Code, Describe, Execute, Search};
        match self {
            Self::Both => &[Search, Execute, Code],
            Self::Split => &[Search, Execute],
            Self::Single => &[Code],
            Self::Passthrough => &[Search, Describe, Call],
        }
    }
}

impl ServerOptions {
    pub(super) fn name_of(&self, tool: OwnTool) -> &str {
        match tool {
            OwnTool::Search => &self.search_name,
            OwnTool::Describe => &self.describe_name,
            OwnTool::Call => &self.call_name,
            OwnTool::Execute => &self.execute_name,
            OwnTool::Code => &self.code_name,
        }
    }

    /// How clients get the descriptions of tools in full.
    pub(super) fn describe_hint(&self) -> String {
        match self.layout {
            Layout::Passthrough => format!("`{}`", self.describe_name),
            Layout::Both | Layout::Split | Layout::Single => "`describe: [\"ns.tool\"]`".to_owned(),
        }
    }

    /// The tool with this name, if the layout has it.
    pub(super) fn own_tool(&self, name: &str) -> Option<OwnTool> {
        self.layout.tools().iter().copied().find(|&tool| self.name_of(tool) == name)
    }
}
