# verify changes nothing, fix does; both need what the README's commands need, rustfmt and clippy.
.PHONY: verify fix docs test bench bench-compare cases

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

# For example: make cases CASES="F26 F56 --full"
cases:
	cargo build --release --locked --package heureka-server
	cargo run --release --locked --package heureka-cases -- --server target/release/heureka $(CASES)
