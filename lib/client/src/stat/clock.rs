//! The time as a listing shows it: one moment taken as now, one time zone.

use gq_model::Timestamp;
use jiff::tz::TimeZone;

/// What time it is, and where.
pub(crate) struct Clock {
    /// Now, for the whole listing.
    pub now: Timestamp,
    /// In which zone times are shown.
    pub zone: TimeZone,
}

impl Clock {
    /// The host's clock and zone.
    pub(crate) fn system() -> Self {
        Self { now: Timestamp(jiff::Timestamp::now().as_microsecond()), zone: TimeZone::system() }
    }

    /// The time on the wall: `2026-12-01T20:15:00`; none when no calendar reaches it.
    pub(crate) fn civil(&self, at: Timestamp) -> Option<String> {
        let at = jiff::Timestamp::from_microsecond(at.0).ok()?.to_zoned_datetime(self.zone.clone());
        Some(at.strftime("%Y-%m-%dT%H:%M:%S").to_string())
    }
}
