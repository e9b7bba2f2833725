//! Compiles the contract without protoc.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Every served file, seen from this folder.
const FILES: [&str; 7] = [
    "heureka/registry/admin/v1/admin_service.proto",
    "heureka/registry/peer/v1/replication_service.proto",
    "heureka/registry/v1/common.proto",
    "heureka/registry/v1/discovery_service.proto",
    "heureka/registry/v1/go_away.proto",
    "heureka/registry/v1/instance.proto",
    "heureka/registry/v1/registry_service.proto",
];

const PACKAGE: &str = "heureka.registry.v1";

const PEER_PACKAGE: &str = "heureka.registry.peer.v1";

/// Fields that a server has as bytes: entries that it encodes once and sends to many, entries that it reads one at a
/// time, and texts that it only looks up. On the wire a message or a text is its length and its bytes, so a field of
/// bytes says the same.
const AS_BYTES: [(&str, &[&str]); 5] = [
    ("WatchEvent", &["changes"]),
    ("ChangeBatch", &["changes"]),
    ("BatchRegisterRequest", &["requests"]),
    ("BatchRenewRequest", &["requests"]),
    ("InstanceKey", &["namespace", "app", "id"]),
];

/// Entries of frames between servers, read one at a time, so that a damaged one harms no other.
const PEER_AS_BYTES: [(&str, &[&str]); 7] = [
    ("Records", &["records"]),
    ("Renewals", &["bindings"]),
    ("Want", &["keys"]),
    ("Probe", &["keys"]),
    ("Summary", &["buckets"]),
    ("Versions", &["versions"]),
    ("Reports", &["reports"]),
];

/// Those messages and what holds them on the side of the server; all others are the same on both sides.
const SERVED: [&str; 8] = [
    "ChangeBatch",
    "WatchEvent",
    "WatchResponse",
    "WatchManyResponse",
    "BatchRegisterRequest",
    "BatchRenewRequest",
    "InstanceKey",
    "RenewRequest",
];

/// The message that a server writes by hand, its entries encoded beforehand.
const LISTED: &str = "ListInstancesResponse";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=heureka");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    contract().compile_fds(peers_retyped(descriptors.clone()))?;
    compile_served(descriptors, &out.join("served"))
}

fn peers_retyped(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for file in descriptors.file.iter_mut().filter(|file| file.package() == PEER_PACKAGE) {
        file.message_type.iter_mut().for_each(|message| retype(message, &PEER_AS_BYTES));
    }
    descriptors
}

fn contract() -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::codec::BoundedCodec")
}

/// The services as a server offers them: the contract, with some fields as bytes.
fn compile_served(mut descriptors: FileDescriptorSet, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(out)?;
    let mut builder = contract().build_client(false).out_dir(out);
    for file in descriptors.file.iter_mut().filter(|file| file.package() == PACKAGE) {
        file.message_type.iter_mut().for_each(|message| retype(message, &AS_BYTES));
        let messages = file.message_type.iter().map(DescriptorProto::name);
        let enums = file.enum_type.iter().map(prost_types::EnumDescriptorProto::name);
        for name in messages.chain(enums).filter(|name| !SERVED.contains(name)) {
            let rust =
                if name == LISTED { "crate::listed::ListedInstances" } else { &format!("crate::v1::{name}") };
            builder = builder.extern_path(format!(".{PACKAGE}.{name}"), rust);
        }
    }
    Ok(builder.compile_fds(descriptors)?)
}

fn retype(message: &mut DescriptorProto, as_bytes: &[(&str, &[&str])]) {
    let name = message.name();
    let Some((_, fields)) = as_bytes.iter().find(|(known, _)| *known == name) else { return };
    for field in message.field.iter_mut().filter(|field| fields.contains(&field.name())) {
        field.set_type(Type::Bytes);
        field.type_name = None;
    }
}
