//! How long `inspect` takes: building, walking and counting every network of the zoo.
//!
//! `cargo bench -p sordino --bench inspect` prints the time of each; the promise is under 50 ms for any of them.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use network::cost::Cost;
use network::zoo;

fn inspect(criterion: &mut Criterion) {
    for entry in zoo::catalog() {
        criterion.bench_function(entry.name, |bencher| {
            bencher.iter(|| Cost::by_part(&zoo::build(entry.name, entry.input, 100).unwrap()));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(100))
        .measurement_time(std::time::Duration::from_millis(200));
    targets = inspect
}
criterion_main!(benches);
