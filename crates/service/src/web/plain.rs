//! For demos alone: a page shows the server its picture after all, and gets the answer in plain to compare with.
//!
//! ```text
//! page: one line of JSON    {"model": "…", "pixels": […]}               ------->
//!                           {"logits": […]}, or {"error": "…"}          <-------
//! ```
//!
//! It goes through a WebSocket of its own, with the same check of origins. No service offers it unless its operator asked.

use std::fmt;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use serde::Deserialize;

use super::frames::{self, PIECE_BYTES, Word};

/// The longest question.
const MAX_QUESTION_BYTES: usize = 4 << 20;

/// Answers in plain: from a model's name and an image's bytes to the logits, or to what is wrong.
#[derive(Clone)]
pub struct PlainAnswers(Arc<Answering>);

type Answering = dyn Fn(&str, Vec<u8>) -> Result<Vec<i64>, String> + Send + Sync;

impl PlainAnswers {
    /// By a function.
    pub fn new(answer: impl Fn(&str, Vec<u8>) -> Result<Vec<i64>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    /// Answers one question, then ends the connection.
    pub(super) fn run(&self, browser: &TcpStream) -> io::Result<()> {
        let (mut reader, mut buffer) = (BufReader::with_capacity(PIECE_BYTES, browser), vec![0; PIECE_BYTES]);
        let mut question = Question::default();
        while !question.is_whole() {
            if frames::read(&mut reader, &mut question, &mut buffer)? == Word::Close {
                return Ok(());
            }
        }
        let answer = self.answer(&question.0);
        let mut frame = frames::binary_head(answer.len());
        frame.extend_from_slice(answer.as_bytes());
        frame.extend_from_slice(&frames::close());
        let mut browser = browser;
        browser.write_all(&frame)?;
        browser.shutdown(Shutdown::Both)
    }

    fn answer(&self, question: &[u8]) -> String {
        let asked = serde_json::from_slice::<Asked>(question);
        let answer = match asked {
            Ok(Asked { model, pixels }) => (self.0)(&model, pixels),
            Err(error) => Err(format!("expected a model and an image's bytes: {error}")),
        };
        match answer {
            Ok(logits) => serde_json::json!({ "logits": logits }),
            Err(error) => serde_json::json!({ "error": error }),
        }
        .to_string()
    }
}

impl fmt::Debug for PlainAnswers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PlainAnswers")
    }
}

#[derive(Deserialize)]
struct Asked {
    model: String,
    pixels: Vec<u8>,
}

/// Payload up to the end of a line.
#[derive(Default)]
struct Question(Vec<u8>);

impl Question {
    fn is_whole(&self) -> bool {
        self.0.ends_with(b"\n")
    }
}

impl Write for Question {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_QUESTION_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a question longer than any image"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_or_told_what_is_wrong() {
        let double =
            |_: &str, pixels: Vec<u8>| Ok(pixels.iter().map(|pixel| 2 * i64::from(*pixel)).collect());
        let answers = PlainAnswers::new(double);
        assert_eq!(answers.answer(b"{\"model\": \"\", \"pixels\": [1, 2]}\n"), "{\"logits\":[2,4]}");
        assert!(answers.answer(b"{\"model\": \"\", \"pixels\": [256]}\n").contains("error"));
        assert!(answers.answer(b"\n").contains("expected a model"));
        let refusing = PlainAnswers::new(|model, _| Err(format!("there is no model {model}")));
        let refused = refusing.answer(b"{\"model\": \"x\", \"pixels\": []}\n");
        assert_eq!(refused, "{\"error\":\"there is no model x\"}");
    }

    #[test]
    fn a_question_has_an_end_and_a_limit() {
        let mut question = Question::default();
        question.write_all(b"{}").unwrap();
        assert!(!question.is_whole());
        question.write_all(b"\n").unwrap();
        assert!(question.is_whole());
        assert!(question.write_all(&vec![0; MAX_QUESTION_BYTES]).is_err());
    }
}
