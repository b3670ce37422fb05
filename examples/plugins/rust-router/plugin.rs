//! A routing policy: short requests try the targets in the configured order, long ones in reverse order. So the model
//! with the largest context must be the last target.
//!
//! The setting long is the minimum size of a long request in bytes. Unhealthy targets are always tried last.
#![deny(unsafe_code)]

use sluice::{host, Document, Input, Result, Router};

/// An instance of the router, with its setting.
struct ByLength {
    long: i64,
}

sluice::export!(router: ByLength);

impl Router for ByLength {
    /// Reads the settings, and rejects invalid ones.
    fn configure(settings: &Input) -> Result<ByLength> {
        match settings.int("/long") {
            Some(long) if long > 0 => Ok(ByLength { long }),
            _ => Err("long is missing: want the minimum size of a long request, in bytes".into()),
        }
    }

    /// Makes each target a candidate, best first.
    fn choose(&self, input: &Input) -> Result {
        let long = input.int("/summary/body").unwrap_or(0) >= self.long;
        let mut targets: Vec<Input> = input.items("/targets");
        if long {
            targets.reverse();
        }
        for healthy in [true, false] {
            for target in &targets {
                if target.bool("/healthy") == Some(healthy) {
                    host::candidate(target.int("/index").unwrap_or(0) as i32);
                }
            }
        }
        host::explain(if long { "long" } else { "short" });
        Ok(())
    }
}
