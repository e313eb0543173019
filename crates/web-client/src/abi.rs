//! The border of the module: what it takes from the script that loads it, and what it gives.
//!
//! ```text
//! script                                            module
//!   input(length): a place to write to    ------->
//!   ask(question): does it                ------->
//!                                         <-------  receive, send, random, now, tell
//!   reply(), then as many bytes as `ask` said
//! ```
//!
//! The script waits inside `ask` while the module waits inside `receive`; so a worker runs it, never the page itself.

#![allow(unsafe_code, reason = "functions of the script have no other form; no pointer is followed here")]

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::time::Duration;

use serde::Serialize;

use crate::session::{Ready, Session, SessionError};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Waits for bytes: how many came, 0 at the end of the stream, -1 when nobody spoke for too long.
    fn receive(place: *mut u8, length: usize) -> i32;
    /// Takes bytes to be sent: 0, or -1 when the stream has ended.
    fn send(bytes: *const u8, length: usize) -> i32;
    /// Fills a place with random bytes, from the browser's generator for keys.
    fn random(place: *mut u8, length: usize);
    /// Milliseconds since the page was loaded.
    safe fn now() -> f64;
    /// Takes a text in JSON, while a question is being answered.
    fn tell(text: *const u8, length: usize);
}

/// The questions, as the page numbers them.
const CONNECT: u32 = 0;
const LOOK: u32 = 1;
const PREPARE: u32 = 2;
const CLASSIFY: u32 = 3;

/// What lives from one question to the next.
#[derive(Default)]
struct State {
    input: Vec<u8>,
    reply: Vec<u8>,
    session: Option<Session<PageStream>>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// A place for so many bytes that belong to the next question.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; length];
        state.input.as_mut_ptr()
    })
}

/// Answers a question; says how many bytes the reply has.
#[unsafe(no_mangle)]
extern "C" fn ask(question: u32) -> usize {
    inference::clock::bring(since_loading);
    std::panic::set_hook(Box::new(|fault| tell_text(&Event::Fault(fault.to_string()))));
    STATE.with_borrow_mut(|state| {
        let reply = match answer(question, state) {
            Ok(reply) => reply,
            Err(error) => json(&Reply::<()>::Error { kind: error.kind(), text: error.text() }),
        };
        state.reply = reply;
        state.reply.len()
    })
}

/// Where the reply begins.
#[unsafe(no_mangle)]
extern "C" fn reply() -> *const u8 {
    STATE.with_borrow(|state| state.reply.as_ptr())
}

/// What the script hears.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reply<T> {
    Done(T),
    Error { kind: &'static str, text: String },
}

/// What the script hears in between.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Event<'a> {
    Ready(Ready<'a>),
    Fault(String),
}

fn answer(question: u32, state: &mut State) -> Result<Vec<u8>, SessionError> {
    let input = std::mem::take(&mut state.input);
    if question == CONNECT {
        // The old session ends before the new one begins.
        state.session = None;
        let wanted = serde_json::from_slice(&input).map_err(SessionError::Question)?;
        let told = |progress: inference::client::Progress<'_>| {
            tell_text(&Event::Ready(Ready { layer: progress.layer, bytes: progress.bytes }));
        };
        let session = state.session.insert(Session::connect(PageStream, &wanted, told)?);
        return Ok(json(&Reply::Done(session.connected())));
    }
    let session = state.session.as_mut().ok_or(SessionError::NotConnected)?;
    match question {
        LOOK => Ok(json(&Reply::Done(session.look(&input)?))),
        PREPARE => Ok(json(&Reply::Done(session.prepare()?))),
        CLASSIFY => Ok(json(&Reply::Done(session.classify()?))),
        unknown => {
            let error = serde::de::Error::custom(format_args!("question {unknown}"));
            Err(SessionError::Question(error))
        }
    }
}

fn json(reply: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(reply).expect("replies are plain data with textual keys")
}

fn tell_text(event: &Event<'_>) {
    let text = json(event);
    // SAFETY: the text lives until the script has read it, and the script reads no further than its end.
    unsafe { tell(text.as_ptr(), text.len()) }
}

fn since_loading() -> Duration {
    Duration::try_from_secs_f64(now() / 1000.0).unwrap_or_default()
}

/// The stream that the script keeps.
struct PageStream;

impl Read for PageStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the script writes at most so many bytes, all of them inside the buffer.
        let count = unsafe { receive(buffer.as_mut_ptr(), buffer.len()) };
        usize::try_from(count).map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

impl Write for PageStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the script copies exactly these bytes before it returns.
        match unsafe { send(bytes.as_ptr(), bytes.len()) } {
            0 => Ok(bytes.len()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the crate `getrandom` calls where no system gives random bytes (its backend "custom").
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    place: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: the caller gives a place of that length, and the script fills no more of it.
    unsafe { random(place, length) };
    Ok(())
}
