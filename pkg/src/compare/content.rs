//! Bytes and holes of two files of one size.

use std::ops::Range;

use super::{Content, Side, ViewError, What};

/// Bytes read from each side at a time.
const CHUNK: u64 = 1 << 20;

/// Compares content; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct ContentComparer {
    a: Vec<u8>,
    b: Vec<u8>,
}

impl ContentComparer {
    /// The first difference of maps (if `holes`) and the first of bytes.
    pub(super) fn compare(
        &mut self,
        a: &dyn Content,
        b: &dyn Content,
        holes: bool,
    ) -> Result<Vec<What>, (Side, ViewError)> {
        let mut found = Vec::new();
        let mut holes = holes;
        let size = a.size();
        if b.size() != size {
            // They were equal a moment ago.
            return Err((Side::A, ViewError::Changed));
        }
        let (mut map_a, mut map_b) = (Map::new(a, Side::A), Map::new(b, Side::B));
        let mut at = 0;
        while at < size {
            let (data_a, end_a) = map_a.run(at)?;
            let (data_b, end_b) = map_b.run(at)?;
            let end = end_a.min(end_b).clamp(at.saturating_add(1), size);
            if holes && data_a != data_b {
                found.push(What::Holes { offset: at, a: data_a, b: data_b });
                holes = false;
            }
            if (data_a || data_b)
                && let Some(different) = self.bytes(a, b, at..end)?
            {
                found.push(different);
                break;
            }
            at = end;
        }
        Ok(found)
    }

    /// The first byte of a range that differs.
    fn bytes(
        &mut self,
        a: &dyn Content,
        b: &dyn Content,
        range: Range<u64>,
    ) -> Result<Option<What>, (Side, ViewError)> {
        let mut at = range.start;
        while at < range.end {
            let length = range.end.saturating_sub(at).min(CHUNK - at % CHUNK);
            let size = usize::try_from(length).unwrap_or(0);
            self.a.resize(size, 0);
            self.b.resize(size, 0);
            a.read_exact_at(at, &mut self.a).map_err(|error| (Side::A, error))?;
            b.read_exact_at(at, &mut self.b).map_err(|error| (Side::B, error))?;
            if self.a != self.b {
                let pairs = (at..).zip(self.a.iter().zip(&self.b));
                let mut different = pairs.filter(|(_, (a, b))| a != b);
                return Ok(different.next().map(|(offset, (a, b))| What::Content {
                    offset,
                    a: *a,
                    b: *b,
                }));
            }
            at = at.saturating_add(length);
        }
        Ok(None)
    }
}

/// A file's map, read in ascending order.
struct Map<'a> {
    content: &'a dyn Content,
    side: Side,
    /// The last run of data that was found; `None` when there is no more.
    data: Option<Range<u64>>,
}

impl<'a> Map<'a> {
    fn new(content: &'a dyn Content, side: Side) -> Self {
        Self { content, side, data: Some(0..0) }
    }

    /// Whether there is data at an offset, and up to where that is so at least.
    fn run(&mut self, at: u64) -> Result<(bool, u64), (Side, ViewError)> {
        if self.data.as_ref().is_some_and(|data| data.end <= at) {
            self.data = self.content.next_data(at).map_err(|error| (self.side, error))?;
        }
        Ok(match &self.data {
            None => (false, self.content.size()),
            Some(data) if at < data.start => (false, data.start),
            Some(data) => (true, data.end),
        })
    }
}
