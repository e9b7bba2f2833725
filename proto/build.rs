//! Compiles the contract without protoc.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Every served file, seen from this folder.
const FILES: [&str; 5] = [
    "heureka/registry/v1/common.proto",
    "heureka/registry/v1/discovery_service.proto",
    "heureka/registry/v1/go_away.proto",
    "heureka/registry/v1/instance.proto",
    "heureka/registry/v1/registry_service.proto",
];

const PACKAGE: &str = "heureka.registry.v1";

/// Fields whose entries a server encodes once and sends to many. On the wire a message inside a message is its length
/// and its bytes, so a field of bytes says the same.
const ENCODED_ONCE: [(&str, &str); 2] = [("ChangeBatch", "changes"), ("ListInstancesResponse", "instances")];

/// Those messages and what holds them; all others are the same on both sides.
const SERVED: [&str; 4] = ["ChangeBatch", "WatchEvent", "WatchResponse", "ListInstancesResponse"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=heureka");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    contract().compile_fds(descriptors.clone())?;
    compile_served(descriptors, &out.join("served"))
}

fn contract() -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::codec::BoundedCodec")
}

/// The discovery service as a server offers it: the contract, with changes and listed instances as bytes.
fn compile_served(mut descriptors: FileDescriptorSet, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(out)?;
    let mut builder = contract().build_client(false).out_dir(out);
    for file in descriptors.file.iter_mut().filter(|file| file.package() == PACKAGE) {
        file.service.retain(|service| service.name() == "DiscoveryService");
        file.message_type.iter_mut().for_each(encode_once);
        let messages = file.message_type.iter().map(DescriptorProto::name);
        let enums = file.enum_type.iter().map(prost_types::EnumDescriptorProto::name);
        for name in messages.chain(enums).filter(|name| !SERVED.contains(name)) {
            builder = builder.extern_path(format!(".{PACKAGE}.{name}"), format!("crate::v1::{name}"));
        }
    }
    Ok(builder.compile_fds(descriptors)?)
}

fn encode_once(message: &mut DescriptorProto) {
    let name = message.name().to_owned();
    for field in &mut message.field {
        if ENCODED_ONCE.contains(&(&name, field.name())) {
            field.set_type(Type::Bytes);
            field.type_name = None;
        }
    }
}
