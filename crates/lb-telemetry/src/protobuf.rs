//! As much of protobuf as it takes to write one message.

/// A message that is being written. What has the default value is left out.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, 0);
            self.varint(value);
        }
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.bytes(field, value.as_bytes());
        }
    }

    /// Several numbers of eight bytes in one field.
    pub(crate) fn packed(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64>) {
        self.tag(field, 2);
        self.varint(8 * values.len() as u64);
        values.for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                self.0.push(byte);
                return;
            }
            self.0.push(byte | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_encoding_has_it() {
        let mut message = Message::default();
        message.number(1, 150);
        message.number(2, 0);
        message.text(2, "testing");
        message.text(3, "");
        message.message(3, |inner| inner.number(1, 150));
        message.fixed64(16, 1);
        message.packed(4, [1_u64, 2].into_iter());
        let want: &[&[u8]] = &[
            &[0x08, 0x96, 0x01],
            &[0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g'],
            &[0x1a, 0x03, 0x08, 0x96, 0x01],
            &[0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x22, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(message.into_bytes(), want.concat());
    }
}
