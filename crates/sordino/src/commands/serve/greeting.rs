//! What `sordino serve` says when it is ready, and how the verbs that start one read it.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;

use inference::connection::Fingerprint;

pub(in crate::commands) struct Greeting {
    pub(in crate::commands) address: SocketAddr,
    /// Their names, for people.
    pub(super) models: String,
    /// What clients learn, for people.
    pub(super) reveals: &'static str,
    pub(in crate::commands) metrics: Option<SocketAddr>,
    pub(in crate::commands) page: Option<SocketAddr>,
    pub(in crate::commands) fingerprint: Fingerprint,
}

impl fmt::Display for Greeting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, models, reveals, metrics, page, fingerprint } = self;
        writeln!(formatter, "listening   {address}\nmodels      {models}\nreveals     {reveals}")?;
        writeln!(formatter, "fingerprint {fingerprint}")?;
        metrics.iter().try_for_each(|metrics| writeln!(formatter, "metrics     {metrics}"))?;
        page.iter().try_for_each(|page| writeln!(formatter, "page        http://{page}/"))
    }
}

impl Greeting {
    /// Waits for the greeting of a server; of one that ends before there is none. Asks for metrics
    /// and the page only where they are shown.
    pub(in crate::commands) fn read(output: impl Read, has_metrics: bool, has_page: bool) -> Option<Self> {
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut value = |key: &str| lines.find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
        Some(Self {
            address: value("listening")?.parse().ok()?,
            models: value("models")?,
            reveals: "",
            fingerprint: value("fingerprint")?.parse().ok()?,
            metrics: if has_metrics { Some(value("metrics")?.parse().ok()?) } else { None },
            page: if has_page { Some(page_address(&value("page")?)?) } else { None },
        })
    }
}

/// `http://ADDRESS/`.
fn page_address(text: &str) -> Option<SocketAddr> {
    text.strip_prefix("http://")?.strip_suffix('/')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_read_as_it_was_said() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7441));
        let metrics = Some(SocketAddr::from(([127, 0, 0, 1], 7442)));
        let fingerprint = Fingerprint([0xa7; 32]);
        let page = Some(SocketAddr::from(([127, 0, 0, 1], 7443)));
        let models = "a, b".to_owned();
        let said = Greeting { address, models, reveals: "logits", metrics, page, fingerprint }.to_string();
        let heard = Greeting::read(said.as_bytes(), true, true).unwrap();
        assert_eq!(heard.page, page);
        assert_eq!((heard.address, heard.metrics, heard.fingerprint), (address, metrics, fingerprint));
        assert!(Greeting::read(&said.as_bytes()[..30], false, false).is_none());
    }
}
