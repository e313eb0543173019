//! A browser's request, read strictly: GET, HTTP/1.1, each header once.

use std::collections::BTreeMap;

/// A request without its body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Without what follows a question mark.
    pub(super) path: String,
    /// By name in small letters.
    headers: BTreeMap<String, String>,
}

impl Request {
    /// Reads one that ends with an empty line.
    ///
    /// # Errors
    /// With the status to answer.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        const BAD: &str = "400 Bad Request";
        let text = std::str::from_utf8(bytes).map_err(|_| BAD)?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        if method != Some("GET") {
            return Err("405 Method Not Allowed");
        }
        if version != Some("HTTP/1.1") || words.next().is_some() {
            return Err(BAD);
        }
        let path = target.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(BAD)?;
            // A second one of the same name could contradict the first.
            if headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()).is_some() {
                return Err(BAD);
            }
        }
        Ok(Self { path, headers })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_strictly() {
        let parse = |text: &str| Request::parse(text.as_bytes());
        let request = parse("GET /app.js?x=1 HTTP/1.1\r\nHost: a\r\nORIGIN:  http://a \r\n\r\n").unwrap();
        assert_eq!((request.path.as_str(), request.header("origin")), ("/app.js", Some("http://a")));
        let status = |text: &str| parse(text).unwrap_err();
        assert!(status("POST / HTTP/1.1\r\n\r\n").starts_with("405"));
        assert!(status("GET / HTTP/1.0\r\n\r\n").starts_with("400"));
        assert!(status("GET / HTTP/1.1 x\r\n\r\n").starts_with("400"));
        assert!(status("GET / HTTP/1.1\r\nno colon\r\n\r\n").starts_with("400"));
        assert!(status("GET / HTTP/1.1\r\nOrigin: a\r\norigin: b\r\n\r\n").starts_with("400"));
        assert!(Request::parse(&[0xff; 40]).unwrap_err().starts_with("400"));
    }
}
