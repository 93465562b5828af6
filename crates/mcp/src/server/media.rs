//! Images and audio in the results of programs: clients get them as content blocks, so that models see them, not base64.

use rmcp::model::ContentBlock;
use serde_json::{Map, Value as Json};

/// Replaces each image and audio block of MCP in `value`, however nested, by a line of text, and returns the blocks.
pub(super) fn extract(value: &mut Json) -> Vec<ContentBlock> {
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        let media = value.as_object().and_then(Media::of);
        match (media, value) {
            (Some(media), value) => {
                bytes += media.data.len();
                let is_shown = blocks.len() < MAX_BLOCKS && bytes <= MAX_BYTES;
                let line = media.line(is_shown.then_some(blocks.len() + 1));
                if is_shown {
                    blocks.push(media.block());
                }
                *value = Json::String(line);
            }
            (None, Json::Array(items)) => waiting.extend(items.iter_mut().rev()),
            (None, Json::Object(members)) => {
                let members: Vec<&mut Json> = members.values_mut().collect();
                waiting.extend(members.into_iter().rev());
            }
            (None, _) => {}
        }
    }
    blocks
}

#[derive(Clone, Copy)]
enum Kind {
    Image,
    Audio,
}

/// A content block of MCP: `{ type: "image", data: BASE64, mimeType: "image/png" }`.
struct Media {
    kind: Kind,
    data: String,
    mime_type: String,
}

impl Media {
    fn of(members: &Map<String, Json>) -> Option<Self> {
        let text = |name: &str| members.get(name).and_then(Json::as_str);
        let (kind, prefix) = match text("type")? {
            "image" => (Kind::Image, "image/"),
            "audio" => (Kind::Audio, "audio/"),
            _ => return None,
        };
        let (data, mime_type) = (text("data")?, text("mimeType")?);
        let is_type = |c: u8| c.is_ascii_alphanumeric() || b"/.+-".contains(&c);
        let is_base64 = |c: u8| c.is_ascii_alphanumeric() || b"+/=".contains(&c);
        let is_valid = mime_type.len() <= MAX_MIME_TYPE
            && mime_type.starts_with(prefix)
            && mime_type.bytes().all(is_type)
            && !data.is_empty()
            && data.bytes().all(is_base64);
        is_valid.then(|| Self { kind, data: data.to_owned(), mime_type: mime_type.to_owned() })
    }

    /// The line that replaces the block. `number` counts the blocks that are shown; `None` if the block is not shown.
    fn line(&self, number: Option<usize>) -> String {
        let name = match self.kind {
            Kind::Image => "image",
            Kind::Audio => "audio",
        };
        let size = execbox_core::text::bytes_text((self.data.len() / 4 * 3) as u64);
        match number {
            Some(number) => format!("({name}, block {number} below: {}, {size})", self.mime_type),
            None => format!("({name}, not shown: {}, {size}; return fewer or smaller ones)", self.mime_type),
        }
    }

    fn block(self) -> ContentBlock {
        match self.kind {
            Kind::Image => ContentBlock::image(self.data, self.mime_type),
            Kind::Audio => ContentBlock::audio(self.data, self.mime_type),
        }
    }
}

/// The maximum number of blocks of a result, and the maximum length of their base64, in bytes.
const MAX_BLOCKS: usize = 16;
const MAX_BYTES: usize = 8 << 20;

/// The maximum length of a MIME type, in bytes.
const MAX_MIME_TYPE: usize = 64;
