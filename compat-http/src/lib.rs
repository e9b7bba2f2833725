//! The Eureka REST surface over the same registry.
