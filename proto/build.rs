//! Compiles the contract without protoc.

use std::env;
use std::fs;
use std::path::PathBuf;

use prost::Message;

/// Every served file, seen from this folder.
const FILES: [&str; 5] = [
    "heureka/registry/v1/common.proto",
    "heureka/registry/v1/discovery_service.proto",
    "heureka/registry/v1/go_away.proto",
    "heureka/registry/v1/instance.proto",
    "heureka/registry/v1/registry_service.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=heureka");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
