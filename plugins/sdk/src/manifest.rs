//! Embedding the manifest, so that the component file is the whole plugin.

/// Embeds `waybill-plugin.toml`, which lies beside the crate's `Cargo.toml`, as custom section `waybill-plugin`; or another
/// file, by its path from there: `manifest!("manifests/second.toml")`. Call it once in a plugin.
#[macro_export]
macro_rules! manifest {
    () => {
        $crate::manifest!("waybill-plugin.toml");
    };
    ($path:literal) => {
        const _: () = {
            const TEXT: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path));
            // A custom section must be plain bytes without a pointer, hence the array.
            #[used]
            #[cfg_attr(target_family = "wasm", unsafe(link_section = "waybill-plugin"))]
            static MANIFEST: [u8; TEXT.len()] = *include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path));
        };
    };
}
