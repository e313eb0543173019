//! For demos alone: a page shows the server its picture after all, and gets the answer in plain to compare with.
//!
//! ```text
//! page: one line of JSON    {"model": "…", "pixels": […]}               ------->
//!                           {"logits": […]}, {"class": …}, or {"error": "…"}   <-------
//! ```
//!
//! It goes through a WebSocket of its own, with the same check of origins. No service offers it unless its operator asked. An
//! answer is drawn from the client's hourly quota, takes a place, and tells no more than a private one.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inference::client::Answer;
use inference::connection::refusal::Refusal;
use inference::plan::Reveal;
use serde::Deserialize;

use super::frames::{self, PIECE_BYTES, Word};
use crate::queue::{Place, Reservation};
use crate::quotas::Quota;
use crate::server::Service;
use crate::stores::ClientName;

/// The longest question.
const MAX_QUESTION_BYTES: usize = 4 << 20;
/// In which it must have come.
const PATIENCE: Duration = Duration::from_secs(10);

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
    pub(super) fn run(&self, browser: &TcpStream, address: IpAddr, service: &Service) -> io::Result<()> {
        let browser_until = Until { browser, end: Instant::now() + PATIENCE };
        let mut reader = BufReader::with_capacity(PIECE_BYTES, browser_until);
        let mut buffer = vec![0; PIECE_BYTES];
        let mut question = Question::default();
        while !question.is_whole() {
            if frames::read(&mut reader, &mut question, &mut buffer)? == Word::Close {
                return Ok(());
            }
        }
        let client = ClientName::of_address(address);
        let answer = self.answer(&question.0, |model| admit(service, &client, model));
        let mut frame = frames::binary_head(answer.len());
        frame.extend_from_slice(answer.as_bytes());
        frame.extend_from_slice(&frames::close());
        let mut browser = browser;
        browser.write_all(&frame)?;
        browser.shutdown(Shutdown::Both)
    }

    fn answer<P>(&self, question: &[u8], admit: impl FnOnce(&str) -> Result<(Reveal, P), Refusal>) -> String {
        match self.try_answer(question, admit) {
            Ok(Answer::Logits(logits)) => serde_json::json!({ "logits": logits }),
            Ok(Answer::Class(class)) => serde_json::json!({ "class": class }),
            Err(error) => serde_json::json!({ "error": error }),
        }
        .to_string()
    }

    fn try_answer<P>(
        &self,
        question: &[u8],
        admit: impl FnOnce(&str) -> Result<(Reveal, P), Refusal>,
    ) -> Result<Answer, String> {
        let asked = serde_json::from_slice::<Asked>(question);
        let Asked { model, pixels } =
            asked.map_err(|error| format!("expected a model and an image's bytes: {error}"))?;
        let (reveal, _place) = admit(&model).map_err(|refusal| refusal.to_string())?;
        let answer = Answer::Logits((self.0)(&model, pixels)?);
        Ok(match reveal {
            Reveal::Logits => answer,
            Reveal::Class => Answer::Class(answer.class()),
        })
    }
}

/// A browser that is listened to until a moment: one that says a byte now and then holds its place no longer than others.
struct Until<'a> {
    browser: &'a TcpStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.browser.set_read_timeout(Some(left))?;
        self.browser.read(buffer)
    }
}

/// What stands before a private answer stands before this one: the model is there, the quota, a place. Says what may be told.
fn admit(
    service: &Service,
    client: &ClientName,
    model: &str,
) -> Result<(Reveal, (Place, Reservation)), Refusal> {
    let reveal = service.reveal_of(model)?;
    service.draw(client, Quota::Answers, 1)?;
    Ok((reveal, service.wait_for_place(client)?))
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
    use std::time::Duration;

    use crate::ClientLimits;
    use crate::entrance::tests::one_place;

    #[test]
    fn questions_are_answered_or_told_what_is_wrong() {
        let double =
            |_: &str, pixels: Vec<u8>| Ok(pixels.iter().map(|pixel| 2 * i64::from(*pixel)).collect());
        let answers = PlainAnswers::new(double);
        let ask = |question: &[u8], reveal| answers.answer(question, |_| Ok((reveal, ())));
        let question = b"{\"model\": \"\", \"pixels\": [1, 2]}\n";
        assert_eq!(ask(question, Reveal::Logits), "{\"logits\":[2,4]}");
        assert_eq!(ask(question, Reveal::Class), "{\"class\":1}", "no more than a private answer tells");
        assert!(ask(b"{\"model\": \"\", \"pixels\": [256]}\n", Reveal::Logits).contains("error"));
        assert!(ask(b"\n", Reveal::Logits).contains("expected a model"));
        let refusing = PlainAnswers::new(|_, _| Err("too few pixels".to_owned()));
        let refused = refusing.answer(question, |_| Ok((Reveal::Logits, ())));
        assert_eq!(refused, "{\"error\":\"too few pixels\"}");
    }

    #[test]
    fn answers_have_the_models_quota_and_place_of_private_ones() {
        let (service, _) =
            one_place(Duration::from_secs(1), ClientLimits { answers: Some(2), ..ClientLimits::NONE });
        let client = ClientName("a".to_owned());
        let text = |admitted: Result<_, Refusal>| admitted.map(drop).unwrap_err().to_string();
        assert!(text(admit(&service, &client, "other")).contains("there is no model other here"));
        let (reveal, place) = admit(&service, &client, "tiny").unwrap();
        assert_eq!((reveal, service.queue.lengths()), (Reveal::Logits, (1, 0)));
        assert!(text(admit(&service, &client, "tiny")).contains("the server is busy"), "one place");
        drop(place);
        assert!(text(admit(&service, &client, "tiny")).contains("2 images answered in an hour"));
    }

    #[test]
    fn who_says_a_byte_now_and_then_is_not_heard_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (browser, _) = listener.accept().unwrap();
        let talker = std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut until = Until { browser: &browser, end: Instant::now() + Duration::from_millis(200) };
        let error = std::iter::from_fn(|| Some(until.read(&mut [0]))).find_map(Result::err).unwrap();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        browser.shutdown(Shutdown::Both).unwrap();
        drop(browser);
        talker.join().unwrap();
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
