//! The parts of an instance that are texts.

/// Which part of an instance a text is. In this order, since the later ones refer to the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Tag {
    Host,
    Ip,
    Port,
    Id,
    SecurePort,
    NamedPort,
    Region,
    Zone,
    SubZone,
    Weight,
    Total,
    Metadata,
    Vip,
    SecureVip,
    Group,
    HomePage,
    StatusPage,
    HealthCheck,
    SecureHealthCheck,
    DataCenterName,
    DataCenterClass,
    DataCenterMetadata,
    Lease,
    Sid,
    Country,
    Asg,
    Coordinating,
    ImplicitId,
}

impl Tag {
    /// Whether later texts may refer to this one by a mark.
    pub(crate) fn is_marked(self) -> bool {
        matches!(self, Self::Host | Self::Ip | Self::Port)
    }
}
