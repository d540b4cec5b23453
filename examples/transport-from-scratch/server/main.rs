//! The ledger: books with numbered entries, over TCP.
//!
//! `cargo run --example server -- 127.0.0.1:7400 [TOKEN]`. A book that ends in `closed` takes nothing; a payload `"busy"` is
//! told to come back once, a payload `"never"` is refused. Every entry is written to stdout.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Largest entry, in bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// What is in the books.
#[derive(Default)]
struct Books {
    /// Book and id of each entry, with its number.
    numbers: BTreeMap<(String, String), usize>,
    told_to_wait: BTreeSet<String>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7400".to_owned());
    let token = arguments.next().unwrap_or_default();
    let listener = TcpListener::bind(&address)?;
    println!("listening on {}", listener.local_addr()?);
    serve(&listener, &token)
}

/// Serves until the listener breaks.
pub fn serve(listener: &TcpListener, token: &str) -> Result<()> {
    let books = Arc::new(Mutex::new(Books::default()));
    for stream in listener.incoming() {
        let (stream, books, token) = (stream?, Arc::clone(&books), token.to_owned());
        std::thread::spawn(move || {
            if let Err(error) = talk(stream, &books, &token) {
                eprintln!("a client is gone: {error}");
            }
        });
    }
    Ok(())
}

fn talk(stream: TcpStream, books: &Mutex<Books>, token: &str) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    output.write_all(b"LEDGER 1\n")?;
    let mut welcome = false;
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["HELLO", given @ ..] => {
                welcome = given.first().copied().unwrap_or_default() == token;
                if welcome { "WELCOME\n".to_owned() } else { "DENIED it isn't the one I know\n".to_owned() }
            }
            ["PING"] => "PONG\n".to_owned(),
            ["BYE"] => return Ok(()),
            ["PUT", id, book, bytes] if welcome => {
                let bytes = bytes.parse().unwrap_or(usize::MAX);
                if bytes > ENTRY_BYTES_MAX {
                    // What follows can't be told apart from lines.
                    return output.write_all(b"NO an entry has at most a mebibyte\n");
                }
                let mut payload = vec![0; bytes + 1];
                input.read_exact(&mut payload)?;
                payload.pop();
                enter(books, id, book, &payload)
            }
            _ => "NO that isn't understood\n".to_owned(),
        };
        output.write_all(answer.as_bytes())?;
    }
}

fn enter(books: &Mutex<Books>, id: &str, book: &str, payload: &[u8]) -> String {
    let mut books = books.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if book == "closed" || book.ends_with(".closed") {
        return "CLOSED the book is closed\n".to_owned();
    }
    match payload.trim_ascii().strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(payload) {
        b"never" => return "NO such things aren't entered\n".to_owned(),
        b"busy" if books.told_to_wait.insert(id.to_owned()) => return "BUSY 100 come back\n".to_owned(),
        _ => {}
    }
    let place = (book.to_owned(), id.to_owned());
    if let Some(number) = books.numbers.get(&place) {
        return format!("KNOWN {number}\n");
    }
    let number = books.numbers.keys().filter(|(of, _)| of == book).count() + 1;
    books.numbers.insert(place, number);
    println!("{book} {number} {id} {}", String::from_utf8_lossy(payload));
    format!("OK {number}\n")
}
