//! Byte strings of values that cross beside the text of tagged JSON.

/// The shortest byte string that is attached, in bytes. Shorter ones are base64 in the text.
pub(crate) const MIN_ATTACHED_BYTES: usize = 257;

/// The most attachments of one message. Further byte strings are part of the text.
pub const MAX_ATTACHMENTS: usize = 16_384;

/// Byte strings in the order of their numbers: `{"$attachment": 0}` in the place of base64 is the first one.
#[derive(Debug, Default)]
pub struct AttachedBytes(Vec<Vec<u8>>);

impl AttachedBytes {
    /// Adds a byte string, if it is long enough and there are not too many. Returns its number.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Option<usize> {
        let attaches = bytes.len() >= MIN_ATTACHED_BYTES && self.0.len() < MAX_ATTACHMENTS;
        attaches.then(|| {
            self.0.push(bytes.to_vec());
            self.0.len() - 1
        })
    }

    /// Takes the byte string with a number. Each can be taken once.
    pub(crate) fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        let bytes = self.0.get_mut(usize::try_from(number).ok()?)?;
        Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())
    }

    /// The byte strings.
    pub fn into_inner(self) -> Vec<Vec<u8>> {
        self.0
    }
}

impl From<Vec<Vec<u8>>> for AttachedBytes {
    fn from(bytes: Vec<Vec<u8>>) -> Self {
        Self(bytes)
    }
}
