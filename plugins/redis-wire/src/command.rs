//! Commands as RESP writes them: an array of texts.

/// One command after the other.
#[derive(Debug, Default)]
pub struct Commands {
    /// What is to be written.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub count: usize,
}

impl Commands {
    /// Adds one with its arguments.
    pub fn add(&mut self, words: &[&str]) -> &mut Self {
        push_head(&mut self.bytes, b'*', words.len());
        for word in words {
            push_text(&mut self.bytes, word.as_bytes());
        }
        self.count += 1;
        self
    }
}

/// One text of a command.
pub fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_head(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// `*3` or `$3`: what follows, and how much of it.
pub fn push_head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_texts() {
        let mut commands = Commands::default();
        commands.add(&["PING"]).add(&["SET", "größe", ""]);
        let expected = "*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$7\r\ngröße\r\n$0\r\n\r\n";
        assert_eq!((String::from_utf8_lossy(&commands.bytes).as_ref(), commands.count), (expected, 2));
    }
}
