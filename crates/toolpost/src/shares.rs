//! Shares of bounded resources: no holder can use up what others need.
//!
//! A resource has a total, a lower share for each identity, a lower one for each address before
//! authentication, and capacity reserved for the operator. Connections, rooms, names of spokes and
//! bytes of memory are all bounded by [`Shares`].

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::access::{Identity, IdentityKey, IdentityKind};
use crate::error::{CallError, Limit};

/// Retry delay in the error of a reached limit.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A party that uses a shared resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Holder {
    /// A client that has not authenticated.
    Address(IpAddr),
    /// An authenticated caller.
    Identity(IdentityKey<'static>),
    /// The operator of the gateway.
    Operator,
}

impl Holder {
    /// Returns the holder of a client that has not authenticated. The addresses of an IPv6 network
    /// with 64 bits are one holder, because a client can usually choose among them.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
            }
            address => address,
        })
    }

    /// Returns the holder of a client whose address is not known.
    pub fn of_unknown_address() -> Self {
        Self::Address(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }
}

/// Identities that are equal share one holder.
impl From<&Identity> for Holder {
    fn from(identity: &Identity) -> Self {
        match identity.kind {
            IdentityKind::Operator => Self::Operator,
            _ => Self::Identity(identity.key().into_owned()),
        }
    }
}

/// The bounds of a shared resource. Each bound has the name of its setting.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ShareLimits {
    /// What is shared, in the plural, for error messages.
    pub unit: &'static str,
    /// Maximum for all holders without the operator.
    pub total: (Limit, usize),
    /// Maximum per identity.
    pub identity: (Limit, usize),
    /// Maximum per address before authentication. All addresses together can use half of the total.
    pub address: (Limit, usize),
    /// Capacity beyond the total that only the operator can use.
    pub reserved: usize,
}

impl ShareLimits {
    /// Creates bounds without reserved capacity, in which an address has the share of an identity.
    pub fn new(unit: &'static str, total: (Limit, usize), identity: (Limit, usize)) -> Self {
        Self { unit, total, identity, address: identity, reserved: 0 }
    }

    /// Sets the maximum per address before authentication.
    #[must_use]
    pub fn with_address(mut self, address: (Limit, usize)) -> Self {
        self.address = address;
        self
    }

    /// Sets the capacity that only the operator can use.
    #[must_use]
    pub fn with_reserved(mut self, reserved: usize) -> Self {
        self.reserved = reserved;
        self
    }
}

/// A shared resource. Clones share its state.
#[derive(Debug, Clone)]
pub struct Shares(Arc<SharesInner>);

#[derive(Debug)]
struct SharesInner {
    limits: ShareLimits,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Only holders that use something, so the table is bounded by the total.
    holders: HashMap<Holder, Arc<HolderUsage>, foldhash::fast::RandomState>,
    identities: usize,
    addresses: usize,
    operator: usize,
}

#[derive(Debug)]
struct HolderUsage {
    holder: Holder,
    /// Changed only while the table is locked.
    used: AtomicUsize,
}

/// A part of a shared resource, released on drop.
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub struct SharePermit {
    shares: Shares,
    holder: Arc<HolderUsage>,
    amount: usize,
}

/// A bound of a shared resource is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareError {
    /// The setting of the bound.
    pub limit: Limit,
    max: usize,
    unit: &'static str,
    bounded: Bounded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounded {
    All,
    Identity,
    Address,
}

impl Shares {
    /// Creates a resource that no holder uses.
    pub fn new(limits: ShareLimits) -> Self {
        Self(Arc::new(SharesInner { limits, usage: Mutex::default() }))
    }

    /// Takes an amount for a holder.
    ///
    /// # Errors
    ///
    /// The share of the holder or the total would be exceeded.
    pub fn try_acquire(&self, holder: &Holder, amount: usize) -> Result<SharePermit, ShareError> {
        let mut usage = self.0.usage.lock();
        let holder = usage.add(&self.0.limits, holder, amount)?;
        Ok(SharePermit { shares: self.clone(), holder, amount })
    }

    /// Returns the amount in use by all holders.
    pub fn used(&self) -> usize {
        let usage = self.0.usage.lock();
        usage.identities + usage.addresses + usage.operator
    }
}

impl SharePermit {
    /// Moves the permit to another holder, for example when a client has authenticated.
    ///
    /// # Errors
    ///
    /// The share of the other holder would be exceeded. The permit is unchanged.
    pub fn transfer(&mut self, holder: &Holder) -> Result<(), ShareError> {
        if self.holder.holder == *holder {
            return Ok(());
        }
        let mut usage = self.shares.0.usage.lock();
        usage.remove(&self.holder, self.amount);
        match usage.add(&self.shares.0.limits, holder, self.amount) {
            Ok(other) => {
                self.holder = other;
                Ok(())
            }
            Err(error) => {
                usage.restore(&self.holder, self.amount);
                Err(error)
            }
        }
    }

    /// Changes the amount of the permit.
    ///
    /// # Errors
    ///
    /// A share would be exceeded. The permit is unchanged.
    pub fn resize(&mut self, amount: usize) -> Result<(), ShareError> {
        let mut usage = self.shares.0.usage.lock();
        usage.remove(&self.holder, self.amount);
        match usage.add(&self.shares.0.limits, &self.holder.holder, amount) {
            Ok(holder) => {
                (self.holder, self.amount) = (holder, amount);
                Ok(())
            }
            Err(error) => {
                usage.restore(&self.holder, self.amount);
                Err(error)
            }
        }
    }

    /// Returns the holder.
    pub fn holder(&self) -> &Holder {
        &self.holder.holder
    }

    /// Returns the amount that the holder uses with all its permits.
    pub fn used_by_holder(&self) -> usize {
        self.holder.used.load(Ordering::Relaxed)
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        self.shares.0.usage.lock().remove(&self.holder, self.amount);
    }
}

impl Usage {
    fn add(
        &mut self,
        limits: &ShareLimits,
        holder: &Holder,
        amount: usize,
    ) -> Result<Arc<HolderUsage>, ShareError> {
        let known = self.holders.get(holder);
        let used = known.map_or(0, |known| known.used.load(Ordering::Relaxed));
        self.check(limits, holder, used.saturating_add(amount), amount)?;
        let known = known.cloned().unwrap_or_else(|| {
            let usage = HolderUsage { holder: holder.clone(), used: AtomicUsize::new(0) };
            Arc::new(usage)
        });
        self.restore(&known, amount);
        Ok(known)
    }

    fn check(
        &self,
        limits: &ShareLimits,
        holder: &Holder,
        used_after: usize,
        amount: usize,
    ) -> Result<(), ShareError> {
        let ShareLimits { unit, total, reserved, .. } = *limits;
        let error =
            |(limit, max): (Limit, usize), bounded| ShareError { limit, max, unit, bounded };
        let all = self.identities + self.addresses + self.operator.saturating_sub(reserved);
        let (is_total_reached, share) = match holder {
            Holder::Operator => {
                let all = self.identities + self.addresses + self.operator;
                (all.saturating_add(amount) > total.1.saturating_add(reserved), None)
            }
            Holder::Identity(_) => {
                let share = (limits.identity, Bounded::Identity);
                (all.saturating_add(amount) > total.1, Some(share))
            }
            Holder::Address(_) => {
                let is_reached = all.saturating_add(amount) > total.1
                    || self.addresses.saturating_add(amount) > total.1.div_ceil(2);
                (is_reached, Some((limits.address, Bounded::Address)))
            }
        };
        if let Some((share, bounded)) = share.filter(|(share, _)| used_after > share.1) {
            return Err(error(share, bounded));
        }
        match is_total_reached {
            true => Err(error(total, Bounded::All)),
            false => Ok(()),
        }
    }

    fn restore(&mut self, holder: &Arc<HolderUsage>, amount: usize) {
        holder.used.fetch_add(amount, Ordering::Relaxed);
        *self.class_of(&holder.holder) += amount;
        if !self.holders.contains_key(&holder.holder) {
            self.holders.insert(holder.holder.clone(), Arc::clone(holder));
        }
    }

    fn remove(&mut self, holder: &Arc<HolderUsage>, amount: usize) {
        let before = holder.used.fetch_sub(amount, Ordering::Relaxed);
        *self.class_of(&holder.holder) -= amount;
        // A permit for nothing may have outlived the entry of its holder.
        let is_listed = |known: &Arc<HolderUsage>| Arc::ptr_eq(known, holder);
        if before == amount && self.holders.get(&holder.holder).is_some_and(is_listed) {
            self.holders.remove(&holder.holder);
        }
    }

    fn class_of(&mut self, holder: &Holder) -> &mut usize {
        match holder {
            Holder::Address(_) => &mut self.addresses,
            Holder::Identity(_) => &mut self.identities,
            Holder::Operator => &mut self.operator,
        }
    }
}

impl ShareError {
    /// Whether the total is reached, and not the share of the holder.
    pub fn is_total(&self) -> bool {
        self.bounded == Bounded::All
    }
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, max, unit, bounded } = self;
        let whose = match bounded {
            Bounded::All => "",
            Bounded::Identity => " per caller",
            Bounded::Address => " per address before authentication",
        };
        write!(f, "limit reached: {max} {unit}{whose} (limits.{})", limit.as_str())
    }
}

impl std::error::Error for ShareError {}

impl From<ShareError> for CallError {
    fn from(error: ShareError) -> Self {
        let call_error = Self::overloaded(error.to_string()).with_limit(error.limit);
        call_error.with_retry_after(RETRY_AFTER).not_sent()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn shares() -> Shares {
        let limits =
            ShareLimits::new("connections", (Limit::Connections, 8), (Limit::CallerConnections, 3));
        Shares::new(limits.with_address((Limit::AddressConnections, 2)).with_reserved(2))
    }

    fn identity(id: &str) -> Holder {
        Holder::from(&Identity::new(id))
    }

    fn operator() -> Holder {
        Holder::from(&Identity::new("operator").with_kind(IdentityKind::Operator))
    }

    fn address(last: u8) -> Holder {
        Holder::of_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    /// Takes single permits until one is rejected.
    fn take_all(shares: &Shares, holder: &Holder) -> (Vec<SharePermit>, Limit) {
        let mut permits = Vec::new();
        loop {
            match shares.try_acquire(holder, 1) {
                Ok(permit) => permits.push(permit),
                Err(error) => return (permits, error.limit),
            }
        }
    }

    #[test]
    fn holders_are_bounded_and_operator_has_reserve() {
        let shares = shares();
        let mut held = Vec::new();
        for (holder, expected, limit) in [
            (address(1), 2, Limit::AddressConnections),
            (address(2), 2, Limit::AddressConnections),
            // All addresses together can use half of the total.
            (address(3), 0, Limit::Connections),
            (identity("ada"), 3, Limit::CallerConnections),
            (identity("bob"), 1, Limit::Connections),
            (operator(), 2, Limit::Connections),
        ] {
            let (permits, reached) = take_all(&shares, &holder);
            assert_eq!((permits.len(), reached), (expected, limit), "{holder:?}");
            held.push(permits);
        }
        held.clear();
        assert_eq!(shares.used(), 0);
        assert!(shares.0.usage.lock().holders.is_empty());
        assert_eq!(take_all(&shares, &operator()).0.len(), 10);
    }

    #[test]
    fn transfer_moves_permit_unless_share_is_reached() {
        let shares = shares();
        let (mut before, _) = take_all(&shares, &address(1));
        let (of_ada, _) = take_all(&shares, &identity("ada"));
        let error = before[0].transfer(&identity("ada")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "limit reached: 3 connections per caller (limits.caller_connections)"
        );
        assert_eq!((before[0].holder(), before[0].used_by_holder()), (&address(1), 2));
        before[0].transfer(&identity("bob")).unwrap();
        assert_eq!((before[0].used_by_holder(), before[1].used_by_holder()), (1, 1));
        drop(of_ada);
        before[1].transfer(&identity("ada")).unwrap();
        assert_eq!(shares.0.usage.lock().addresses, 0);
    }

    #[test]
    fn resize_keeps_amount_when_share_is_reached() {
        let shares = shares();
        let mut permit = shares.try_acquire(&identity("ada"), 1).unwrap();
        permit.resize(3).unwrap();
        assert!(permit.resize(4).is_err());
        assert_eq!((permit.used_by_holder(), shares.used()), (3, 3));
        permit.resize(0).unwrap();
        drop(permit);
        assert_eq!(shares.used(), 0);
        assert!(shares.0.usage.lock().holders.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_holder() {
        let of = |text: &str| Holder::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
