//! Generates the Rust of the contract and holds the committed files against it.
//!
//! `AGENTD_PROTO_WRITE=1 cargo test -p agentd-proto --test generate` writes them. Two passes: messages and
//! client stubs speak `AttachResponse`; the server stubs speak `shared::AttachFrame`, the same bytes on the
//! wire with an event that was encoded once for all clients.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use prost_types::FileDescriptorSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FILES: [&str; 11] = [
    "common",
    "daemon",
    "catalog",
    "sessions",
    "events",
    "turns",
    "requests",
    "context",
    "artifacts",
    "policy",
    "audit",
];

fn generated(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<PathBuf> =
        FILES.iter().map(|name| root.join(format!("agentd/v1/{name}.proto"))).collect();
    let set: FileDescriptorSet = protox::compile(&inputs, [root]).expect("the proto files compile");
    let mut files = BTreeMap::new();

    let client = out.join("client");
    std::fs::create_dir_all(&client).unwrap();
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".agentd.v1.ReadArtifactResponse.chunk")
        .file_descriptor_set_path(out.join("descriptor.bin"))
        .out_dir(&client)
        .compile_fds(set.clone())
        .unwrap();
    files.insert("agentd.v1.rs".into(), std::fs::read(client.join("agentd.v1.rs")).unwrap());

    let server = out.join("server");
    std::fs::create_dir_all(&server).unwrap();
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".agentd.v1", "crate::v1")
        .extern_path(".agentd.v1.AttachResponse", "crate::shared::AttachFrame")
        .out_dir(&server)
        .compile_fds(set.clone())
        .unwrap();
    // The trait of the service named Context hides the prelude's `Context` in the generated `poll_ready`.
    let stubs = std::fs::read_to_string(server.join("agentd.v1.rs")).unwrap();
    let stubs = stubs.replace("_cx: &mut Context<'_>", "_cx: &mut std::task::Context<'_>");
    files.insert("agentd.v1.server.rs".into(), stubs.into_bytes());

    files.insert("descriptor.bin".into(), prost::Message::encode_to_vec(&set));
    files
}

#[test]
fn committed_code_is_what_the_proto_files_say() {
    let out = std::env::temp_dir().join(format!("agentd-proto-{}", std::process::id()));
    let files = generated(&out);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gen");
    let write = std::env::var_os("AGENTD_PROTO_WRITE").is_some();
    for (name, bytes) in files {
        let path = committed.join(&name);
        if write {
            std::fs::write(&path, &bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap_or_default();
        assert!(
            found == bytes,
            "{} is stale; run AGENTD_PROTO_WRITE=1 cargo test -p agentd-proto --test generate",
            path.display()
        );
    }
    std::fs::remove_dir_all(out).unwrap();
}
