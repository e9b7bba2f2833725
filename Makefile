# verify changes nothing, fix does; both need what the README's commands need, rustfmt and clippy.
.PHONY: verify fix docs test bench bench-compare cases sim sim-full turmoil

verify:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo test --workspace --locked

fix:
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all
	UPDATE_DOCS=1 cargo test --package heureka-server --test config

test:
	cargo test --workspace --locked

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --open

bench:
	cargo run --release --locked --package heureka-bench

# make bench-compare OLD=path/to/heureka NEW=target/release/heureka [ROWS="grpc renew"]; fails when NEW is worse.
bench-compare:
	cargo run --release --locked --package heureka-bench -- compare $(OLD) $(NEW) $(ROWS)

# Seeds that failed once, then ten thousand others. One of them: cargo run --release --locked -p heureka-sim -- --seed N
sim:
	cargo run --release --locked --package heureka-sim -- --seeds 10000

# The same with real servers and clients on a simulated network, where a seed takes most of a second.
turmoil:
	cargo run --release --locked --package heureka-turmoil --features seeded-bugs -- --seeds 50

# The nightly sizes: a million seeds, every planted fault must be found, and two thousand seeds on the simulated network.
sim-full:
	cargo run --release --locked --package heureka-sim -- --seeds 1000000 --first 1000000
	cargo run --release --locked --package heureka-sim --features seeded-bugs -- --bug all --seeds 2000
	cargo run --release --locked --package heureka-turmoil --features seeded-bugs -- --seeds 2000
	cargo run --release --locked --package heureka-turmoil --features seeded-bugs -- --bug all --seeds 200

# For example: make cases CASES="F26 F56 --full"
cases:
	cargo build --release --locked --package heureka-server
	cargo run --release --locked --package heureka-cases -- --server target/release/heureka $(CASES)
