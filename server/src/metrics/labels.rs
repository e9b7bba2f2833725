//! Values of labels: small, fixed sets.

/// Declares an enum whose values are written as words in a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All values, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The value as a label has it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

label! {
    /// What a connection speaks.
    Protocol {
        /// HTTP/1.1.
        H1 => "h1",
        /// HTTP/2 with prior knowledge.
        H2 => "h2",
    }
}

label! {
    /// Why a connection ended.
    Closed {
        /// The client or both sides ended it.
        Done => "done",
        /// It broke the protocol or the socket failed.
        Error => "error",
        /// There was no handshake, or none that both sides agree with.
        Tls => "tls",
        /// It said nothing, or not enough, in time.
        Timeout => "timeout",
        /// It was asked to end for its age or the server's and did not.
        Cut => "cut",
        /// The server has as many as it may.
        Limit => "limit",
    }
}

label! {
    /// What a request is for.
    Surface {
        /// gRPC and grpc-web.
        Grpc => "grpc",
        /// Eureka REST and every unknown path.
        Rest => "rest",
        /// Health and metrics.
        Operations => "operations",
    }
}

label! {
    /// Why a request was refused before its handler.
    Refusal {
        /// Request target too long.
        Uri => "uri",
        /// Too many headers or too large ones.
        Headers => "headers",
        /// One host is to be named, no less and no more.
        Host => "host",
        /// The body stood still.
        Body => "body",
        /// No credentials, or wrong ones.
        Credentials => "credentials",
    }
}
