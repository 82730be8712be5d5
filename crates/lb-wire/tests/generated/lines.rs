//! Line framing, against a split of the whole text.

use bytes::Bytes;
use lb_wire::{Lines, Message};

const LINE_BYTES_MAX: usize = 512;

/// True when no line is too long and at least one is a message.
pub fn check(input: &[u8]) -> bool {
    let mut whole: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let open = whole.pop().unwrap_or_default();
    let told_open = usize::from(LINE_BYTES_MAX < open.len());
    let want: Vec<Option<&[u8]>> = whole.iter().map(|line| (line.len() <= LINE_BYTES_MAX).then_some(*line)).collect();
    for size in [5, 4096] {
        let mut lines = Lines::new(LINE_BYTES_MAX);
        let mut got: Vec<Option<Bytes>> = Vec::new();
        for chunk in input.chunks(size) {
            lines.buffer().extend_from_slice(chunk);
            while let Some(line) = lines.next_line() {
                got.push(line.ok());
            }
            assert!(lines.buffer().len() <= LINE_BYTES_MAX + size, "a line without end is not kept");
        }
        assert_eq!(got.len(), want.len() + told_open, "lines in chunks of {size}");
        let got = got.iter().take(want.len()).map(Option::as_deref);
        assert!(got.eq(want.iter().copied()), "lines in chunks of {size}");
    }
    let good = |line: &&[u8]| Message::scan(Bytes::copy_from_slice(line)).is_ok();
    want.iter().all(Option::is_some) && whole.iter().any(good)
}
