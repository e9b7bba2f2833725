//! How large an instance may be.

/// Sizes that a server takes, in bytes unless a field says entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Application name, group, namespace.
    pub name: usize,
    /// Instance id.
    pub id: usize,
    /// Host name, IP address, region, zone.
    pub host: usize,
    /// Virtual address list.
    pub vip: usize,
    /// One URL.
    pub url: usize,
    /// Entries of the metadata map, of the data centre's, of the capacity map and of the named ports.
    pub metadata_entries: usize,
    /// One metadata key.
    pub metadata_key: usize,
    /// One metadata value.
    pub metadata_value: usize,
    /// All texts of an instance together.
    pub instance: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            name: 256,
            id: 512,
            host: 255,
            vip: 1024,
            url: 2048,
            metadata_entries: 1024,
            metadata_key: 256,
            metadata_value: 256 * 1024,
            instance: 512 * 1024,
        }
    }
}
