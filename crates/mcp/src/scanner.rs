//! Finds out about a message of JSON-RPC without keeping it: its id, its kind and the memory that it will take.

use rmcp::model::RequestId;

/// Finds the members of an object and counts its values byte by byte.
#[derive(Default)]
pub(crate) struct Scanner {
    /// The number of bytes.
    length: usize,
    /// The memory of the containers and values that have begun, in bytes.
    parsed: usize,
    /// For each open container, from the innermost one: whether it is an object. JSON that is read nests less deep.
    objects: u128,
    depth: u32,
    position: Position,
    /// The current member of the outermost object, without nested values, up to [`MAX_MEMBER`] bytes.
    member: Vec<u8>,
    id: Option<RequestId>,
    has_method: bool,
    has_result: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Position {
    #[default]
    Outside,
    InString,
    /// After a backslash in a string.
    InEscape,
}

impl Scanner {
    /// The scanner of a whole message.
    pub(crate) fn of(message: &[u8]) -> Self {
        let mut scanner = Self::default();
        scanner.scan(message);
        scanner
    }

    pub(crate) fn scan(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len());
        for &byte in bytes {
            self.next(byte);
        }
    }

    fn next(&mut self, byte: u8) {
        let is_outside = self.position == Position::Outside;
        let nests = is_outside && matches!(byte, b'{' | b'[' | b'}' | b']');
        let ends_member = self.depth == 1 && is_outside && matches!(byte, b',' | b'}');
        if ends_member {
            self.end_member();
        } else if self.depth == 1 && !nests && self.member.len() < MAX_MEMBER {
            self.member.push(byte);
        }
        if is_outside {
            self.count(byte);
        }
        match (self.position, byte) {
            (Position::InString, b'\\') => self.position = Position::InEscape,
            (Position::InString, b'"') => self.position = Position::Outside,
            (Position::InEscape, _) | (Position::Outside, b'"') => self.position = Position::InString,
            (Position::Outside, b'{' | b'[') => self.depth = self.depth.saturating_add(1),
            (Position::Outside, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// Counts the memory of what begins with a byte. A value takes 72 bytes, and 112 with its name and its place in a table; a
    /// list begins with the room for four, an object with that for three. When one of them grows, both copies exist.
    fn count(&mut self, byte: u8) {
        let (bytes, objects) = match byte {
            b'{' => (416, (self.objects << 1) | 1),
            b'[' => (304, self.objects << 1),
            b'}' | b']' => (0, self.objects >> 1),
            b',' if self.objects & 1 == 1 => (288, self.objects),
            b',' => (192, self.objects),
            _ => return,
        };
        self.parsed = self.parsed.saturating_add(bytes);
        self.objects = objects;
    }

    fn end_member(&mut self) {
        let member = self.member.trim_ascii();
        let value_of = |name: &[u8]| member.strip_prefix(name)?.trim_ascii_start().strip_prefix(b":");
        if let Some(value) = value_of(b"\"id\"") {
            self.id = serde_json::from_slice(value).ok();
        }
        self.has_method |= value_of(b"\"method\"").is_some();
        self.has_result |= value_of(b"\"result\"").or_else(|| value_of(b"\"error\"")).is_some();
        self.member.clear();
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The approximate memory of the parsed message, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.length.saturating_mul(2).saturating_add(self.parsed)
    }

    /// The id of the message.
    pub(crate) fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// Whether the message answers a request.
    pub(crate) fn is_response(&self) -> bool {
        self.has_result && !self.has_method
    }

    /// The id of the request that the message answers, if it is not a request itself.
    pub(crate) fn answered(self) -> Option<RequestId> {
        self.id.filter(|_| !self.has_method)
    }
}

/// The maximum length of a member, in bytes.
const MAX_MEMBER: usize = 256;
