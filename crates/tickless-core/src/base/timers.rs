//! All timers of a host, over all its CPUs.

use core::fmt;
use core::mem::MaybeUninit;

use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::id::Realm;

use crate::base::cpu_base::CpuBase;
use crate::cpu::CpuId;
use crate::event::{DeviceConfig, EventDevice};
use crate::platform::{Platform, ThisCpu};

/// All timers of a host, over all its CPUs; the operations on timers are methods of this type or take it as an
/// argument.
///
/// A host makes one value of this type and keeps it as long as any of its timers is used. All methods take `&self`, and
/// any CPU may call them.
pub struct Timers<P: Platform> {
    pub(crate) platform: P,
    pub(super) realm: Realm,
}

impl<P: Platform> Timers<P> {
    /// Makes the timers of a host, without CPUs at first.
    #[must_use]
    pub fn new(platform: P) -> Self {
        Self {
            platform,
            realm: Realm::new(),
        }
    }

    /// Makes the base of the next CPU. CPUs are numbered from 0 in the order of these calls. The CPU is offline at
    /// first.
    ///
    /// The host puts the base into its table, at an address that never changes, before it calls any other function for
    /// that CPU.
    ///
    /// # Panics
    ///
    /// When there would be more than 2^20 CPUs (2^12 on 32-bit targets), or the configuration of the device is not
    /// valid.
    #[must_use]
    pub fn new_base(&self, device: DeviceConfig, local: P::Local) -> CpuBase<P> {
        emplace::moved(|slot| self.emplace_base(slot, device, local))
    }

    /// Makes a base in `slot`. [`new_base`](Self::new_base) returns a base by value instead, and each move of that
    /// value takes 18 KiB of stack.
    ///
    /// # Panics
    ///
    /// As [`new_base`](Self::new_base).
    pub fn emplace_base<'a>(
        &self,
        slot: &'a mut MaybeUninit<CpuBase<P>>,
        device: DeviceConfig,
        local: P::Local,
    ) -> Emplaced<'a, CpuBase<P>> {
        CpuBase::emplace(slot, &self.realm, EventDevice::new(device), local)
    }

    /// Returns the host.
    #[inline]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// Returns a base that exists according to the host.
    #[inline]
    pub(crate) fn target(&self, cpu: CpuId) -> &CpuBase<P> {
        self.platform
            .base(cpu)
            .expect("the host has a base for each CPU it names")
    }

    pub(crate) fn bases(&self) -> impl Iterator<Item = &CpuBase<P>> {
        (0..).map_while(|cpu| self.platform.base(CpuId(cpu)))
    }

    #[inline]
    pub(crate) fn executing_cpu(&self) -> Option<ThisCpu<'_, P>> {
        self.platform
            .this_cpu_if_known()
            .or_else(|| self.platform.this_cpu())
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Timers")
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}
