//! Every message that is not made of ciphertexts, tables or labels: fields beside bytes.

use crypto::ot::Depth;
use crypto::secret::Secret;
use network::digest::Digest;

use super::{Object, list, relus_word, reveal_word};
use crate::connection::Role;
use crate::connection::frame::{FrameKind, Header, MAGIC, PROTOCOL_VERSION};
use crate::connection::refusal::{Refusal, RefusalCode};
use crate::plan::{ReluRounding, Reveal, Terms};
use crate::requests::{Reply, Request, Room, StoredId};
use crate::setup::messages::{Agreement, ClientHello, ModelName, ServerHello};

pub(super) fn text() -> String {
    let all = [headers(), hellos(), requests(), replies(), refusals()].concat();
    Object::new().raw("protocol version", &PROTOCOL_VERSION.to_string()).raw("words", &list(all)).finish()
        + "\n"
}

fn message(what: &str, fields: Object, bytes: &[u8]) -> String {
    Object::new().text("what", what).raw("fields", &fields.finish()).hex("bytes", bytes).finish()
}

fn headers() -> Vec<String> {
    let kinds = [
        FrameKind::SetUp,
        FrameKind::Homomorphic,
        FrameKind::Transfer,
        FrameKind::Garbled,
        FrameKind::Truncation,
        FrameKind::Values,
        FrameKind::Service,
        FrameKind::Refusal,
        FrameKind::Gates,
    ];
    let header = |(number, kind): (usize, FrameKind)| {
        let (session, inference) = if number == 0 { (MAGIC, [0; 8]) } else { (*b"session.", *b"inferenc") };
        let sender = if number % 2 == 0 { Role::Client } else { Role::Server };
        let (step, length) = (0x0102_0304 * number as u32, 0x0506_0708_090a * number as u64);
        let header = Header { session, inference, step, sender, kind, version: PROTOCOL_VERSION, length };
        let fields = Object::new()
            .hex("session tag", &session)
            .hex("inference tag", &inference)
            .raw("step", &step.to_string())
            .text("from", &sender.to_string())
            .raw("kind", &(kind as u8).to_string())
            .raw("length", &length.to_string());
        message("header", fields, &header.to_bytes())
    };
    kinds.into_iter().enumerate().map(header).collect()
}

fn hellos() -> Vec<String> {
    let wishes = [
        (None, None, None),
        (Some(Reveal::Logits), Some(ReluRounding::Stochastic), Some(Depth::Four)),
        (Some(Reveal::Class), Some(ReluRounding::Nearest), Some(Depth::Eight)),
    ];
    let mut all = Vec::new();
    for (wish, relus, depth) in wishes {
        let model = ModelName::new("chest é").unwrap();
        let hello = ClientHello { nonce: [1; 32], wish, relus, depth, model };
        let fields = Object::new()
            .hex("nonce", &hello.nonce)
            .text("wish", wish.map_or("any", reveal_word))
            .text("relus", relus.map_or("any", relus_word))
            .raw("depth", &depth.map_or("null".to_owned(), |depth| depth.to_string()))
            .text("model", hello.model.as_str());
        all.push(message("client hello", fields, &hello.to_bytes()));
    }
    let hello = ServerHello {
        nonce: [2; 32],
        terms: Terms { reveal: Reveal::Class, relus: ReluRounding::Stochastic },
        depth: Depth::Eight,
        commitment: Digest([3; 32]),
        model: ModelName::new("chest").unwrap(),
        outline: vec![4, 5, 6],
    };
    let fields = Object::new()
        .hex("nonce", &hello.nonce)
        .text("mode", reveal_word(hello.terms.reveal))
        .text("relus", relus_word(hello.terms.relus))
        .raw("depth", &hello.depth.to_string())
        .hex("commitment", hello.commitment.as_bytes())
        .text("model", hello.model.as_str())
        .hex("outline", &hello.outline);
    all.push(message("server hello", fields, &hello.to_bytes()));
    let agreement =
        Agreement { outline: Digest([5; 32]), commitment: Digest([6; 32]), plan: Digest([7; 32]) };
    let fields = Object::new()
        .hex("outline", agreement.outline.as_bytes())
        .hex("commitment", agreement.commitment.as_bytes())
        .hex("plan", agreement.plan.as_bytes());
    all.push(message("agreement", fields, &agreement.to_bytes()));
    all
}

fn ids() -> (Vec<StoredId>, String) {
    let ids = vec![StoredId([8; 16]), StoredId([9; 16])];
    let json = list(ids.iter().map(|id| format!("\"{id}\"")));
    (ids, json)
}

fn requests() -> Vec<String> {
    let (ids, names) = ids();
    let token = [10; 32];
    let rows = [
        (
            Request::Prepare { count: 3, store: None },
            Object::new().text("request", "prepare").raw("count", "3").raw("token hash", "null"),
        ),
        (
            Request::Prepare { count: 1, store: Some([11; 32]) },
            Object::new().text("request", "prepare").raw("count", "1").hex("token hash", &[11; 32]),
        ),
        (Request::Classify { count: 2 }, Object::new().text("request", "classify").raw("count", "2")),
        (
            Request::ClassifyStored { token: Secret::new(token), ids },
            Object::new().text("request", "classify stored").hex("token", &token).raw("ids", &names),
        ),
        (
            Request::Probe { down: 1000, up: 3 },
            Object::new().text("request", "probe").raw("down", "1000").raw("up", "3"),
        ),
        (Request::Bye, Object::new().text("request", "bye")),
        (Request::Room, Object::new().text("request", "room")),
        (
            Request::List { token: Secret::new(token) },
            Object::new().text("request", "list").hex("token", &token),
        ),
        (
            Request::Discard { token: Secret::new(token) },
            Object::new().text("request", "discard").hex("token", &token),
        ),
    ];
    rows.into_iter().map(|(request, fields)| message("request", fields, &request.to_bytes())).collect()
}

fn replies() -> Vec<String> {
    let (ids, names) = ids();
    let rows = [
        (Reply::Accepted { ids: ids.clone() }, Object::new().text("reply", "accepted").raw("ids", &names)),
        (Reply::Waiting { ahead: 12 }, Object::new().text("reply", "waiting").raw("ahead", "12")),
        (
            Reply::Stored { expires: 1 << 40 },
            Object::new().text("reply", "stored").raw("expires", "1099511627776"),
        ),
        (Reply::Probed { bytes: 4 }, Object::new().text("reply", "probed").raw("bytes", "4")),
        (
            Reply::Room(Room { count: 1, stored: 2, bytes: 3 << 40, lifetime: 86_400 }),
            Object::new()
                .text("reply", "room")
                .raw("count", "1")
                .raw("stored", "2")
                .raw("bytes", "3298534883328")
                .raw("lifetime", "86400"),
        ),
        (Reply::Listed { ids }, Object::new().text("reply", "listed").raw("ids", &names)),
        (
            Reply::Discarded { count: 1 << 33 },
            Object::new().text("reply", "discarded").raw("count", "8589934592"),
        ),
    ];
    rows.into_iter().map(|(reply, fields)| message("reply", fields, &reply.to_bytes())).collect()
}

fn refusals() -> Vec<String> {
    let rows = [
        Refusal::new(RefusalCode::Busy, "try again later"),
        Refusal::about(RefusalCode::Spent, StoredId([8; 16]), "that one is spent"),
    ];
    let row = |refusal: &Refusal| {
        let subject = refusal.subject().map_or("null".to_owned(), |id| format!("\"{id}\""));
        let fields = Object::new()
            .raw("code", &(refusal.code as u16).to_string())
            .text("sentence", refusal.text())
            .raw("about", &subject);
        message("refusal", fields, &refusal.to_bytes())
    };
    rows.iter().map(row).collect()
}
