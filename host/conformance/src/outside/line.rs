//! A peer of lines that answers by rules: enough for text protocols (SMTP, NATS, memcached and one's own).

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Uses;
use crate::case::{LineRule, PeerFault};
use crate::limits::LINE_BYTES_MAX;

/// Serves until it is aborted.
pub(super) async fn serve(listener: TcpListener, greeting: String, rules: Vec<LineRule>) {
    let shared = Arc::new((Uses::of(rules.len()), rules, greeting));
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A peer that goes away is what the suite is about.
            let _ = talk(stream, &shared.2, &shared.1, &shared.0).await;
        });
        // What has ended is let go.
        while connections.try_join_next().is_some() {}
    }
}

async fn talk(stream: TcpStream, greeting: &str, rules: &[LineRule], uses: &Uses) -> std::io::Result<()> {
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    output.write_all(greeting.as_bytes()).await?;
    loop {
        let mut line = Vec::new();
        let limit = LINE_BYTES_MAX as u64;
        if (&mut input).take(limit).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        // The payload belongs to the command, whatever is answered.
        let mut payload = Vec::new();
        let sized = rules.iter().find(|rule| line.starts_with(&rule.on)).and_then(|rule| rule.payload_word);
        if let Some(count) = sized.and_then(|word| words.get(word.checked_sub(1)?)?.parse::<usize>().ok()) {
            payload = vec![0; count.min(LINE_BYTES_MAX)];
            input.read_exact(&mut payload).await?;
            pass_line_break(&mut input).await?;
        }
        let payload = String::from_utf8_lossy(&payload).into_owned();
        let found = rules.iter().enumerate().find(|(index, rule)| {
            let fits = rule.when.as_ref().is_none_or(|text| line.contains(text) || payload.contains(text));
            line.starts_with(&rule.on) && fits && uses.take(*index, rule.times)
        });
        let Some((_, rule)) = found else { continue };
        match rule.fault {
            Some(PeerFault::Drop) => return Ok(()),
            Some(PeerFault::Silent) => std::future::pending::<()>().await,
            None => output.write_all(filled(&rule.send, &line, &payload, &words).as_bytes()).await?,
        }
    }
}

async fn pass_line_break(input: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<()> {
    for expected in [b'\r', b'\n'] {
        if input.fill_buf().await?.first() == Some(&expected) {
            input.consume(1);
        }
    }
    Ok(())
}

fn filled(template: &str, line: &str, payload: &str, words: &[&str]) -> String {
    let mut text = template.replace("${line}", line).replace("${payload}", payload);
    for (number, word) in (1..).zip(words) {
        text = text.replace(&format!("${{{number}}}"), word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat_what_came() {
        assert_eq!(filled("OK ${2} ${payload}\n", "PUT a1 3", "xyz", &["PUT", "a1", "3"]), "OK a1 xyz\n");
    }
}
