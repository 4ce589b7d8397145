//! Sets of CPU numbers, and their text form in the kernel's files.

use std::fmt;
use std::str::FromStr;

/// A set of CPU numbers.
///
/// The set can be read from the text form of the kernel's lists, and written in this form:
///
/// ```
/// use tickless::topology::CpuSet;
///
/// let cpus: CpuSet = "0-3,8,10-11".parse()?;
/// assert_eq!(cpus.len(), 7);
/// assert!(cpus.contains(8) && !cpus.contains(9));
/// assert_eq!(cpus.to_string(), "0-3,8,10-11");
///
/// let error = "0,3-1".parse::<CpuSet>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#""3-1" in the CPU list "0,3-1" ends before it begins; did you mean "1-3"?"#
/// );
/// # Ok::<(), tickless::topology::ListError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` says whether CPU `n` is in the set. The last word is not zero.
    words: Vec<u64>,
}

/// The exclusive upper bound of CPU numbers in a set. Linux is built for 8,192 CPUs at most.
pub const CPUS_MAX: u32 = 1 << 16;

const BITS: u32 = u64::BITS;

impl CpuSet {
    /// Makes the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a CPU.
    ///
    /// # Panics
    ///
    /// If `cpu` is [`CPUS_MAX`] or more.
    pub fn insert(&mut self, cpu: u32) {
        assert!(cpu < CPUS_MAX, "CPU {cpu} is beyond {}", CPUS_MAX - 1);
        let (word, bit) = place(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Returns true if `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if the set has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the CPUs in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..CPUS_MAX)
            .take_while(|&cpu| place(cpu).0 < self.words.len())
            .filter(|&cpu| self.contains(cpu))
    }

    /// Returns the CPU with the lowest number.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Returns the CPU with the highest number.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.iter().last()
    }

    /// Returns the CPUs that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| other.contains(cpu)).collect()
    }

    /// Returns the CPUs that are in this set and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    /// Returns true if `other` has all CPUs of this set.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// Returns the set as ranges in order, each as its first and last CPU.
    fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut cpus = self.iter().peekable();
        std::iter::from_fn(move || {
            let first = cpus.next()?;
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            Some((first, last))
        })
    }
}

/// Returns the word of a CPU, and the CPU's bit in this word.
fn place(cpu: u32) -> (usize, u64) {
    ((cpu / BITS) as usize, 1 << (cpu % BITS))
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

/// Writes a list: `0-3,8,10-11`, and nothing at all for the empty set.
impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = String::new();
        for (first, last) in self.ranges() {
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&first.to_string());
            if last > first {
                list.push('-');
                list.push_str(&last.to_string());
            }
        }
        formatter.pad(&list)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuSet({self})")
    }
}

/// The fault of a list of CPUs. The error is final for that list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListError {
    list: String,
    token: String,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// The list of CPUs is empty, and must not be.
    NoCpu,
    /// The text has nothing between two commas, or before the first comma, or after the last comma.
    Empty,
    NotANumber,
    Reversed {
        first: String,
        last: String,
    },
    /// A range that ends with `N` begins after the last CPU.
    BehindLast(u32),
    /// The list has `N` or `all`, and the machine is not known.
    DependsOnMachine,
    /// No machine has this CPU.
    TooLarge,
    /// The machine lacks the CPU.
    Beyond {
        cpu: u32,
        machine: CpuSet,
    },
    /// The stride of `first-last:used/group` is invalid.
    Stride,
}

impl ListError {
    /// Returns the list that could not be read.
    #[must_use]
    pub fn list(&self) -> &str {
        &self.list
    }

    /// Returns the part of the list that is wrong.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            list,
            token,
            reason,
        } = self;
        match reason {
            Reason::NoCpu => write!(
                formatter,
                "the CPU list {list:?} names no CPU; lists look like \"0-3,8\""
            ),
            Reason::Empty => write!(
                formatter,
                "the CPU list {list:?} has a comma with nothing beside it; lists look like \"0-3,8\""
            ),
            Reason::NotANumber => write!(
                formatter,
                "{token:?} in the CPU list {list:?} is neither a CPU number nor a range like \"0-3\""
            ),
            Reason::Reversed { first, last } => write!(
                formatter,
                "{token:?} in the CPU list {list:?} ends before it begins; did you mean \"{last}-{first}\"?"
            ),
            Reason::BehindLast(last) => write!(
                formatter,
                "{token:?} in the CPU list {list:?} begins behind the last CPU of this machine, which is {last}"
            ),
            Reason::DependsOnMachine => write!(
                formatter,
                "{token:?} in the CPU list {list:?} depends on the machine, which is not known here; write numbers"
            ),
            Reason::TooLarge => write!(
                formatter,
                "{token:?} in the CPU list {list:?} is beyond every machine: CPU numbers end at {}",
                CPUS_MAX - 1
            ),
            Reason::Beyond { cpu, machine } if token == &cpu.to_string() => write!(
                formatter,
                "CPU {cpu} in the CPU list {list:?} is not one of this machine, which has {machine}"
            ),
            Reason::Beyond { cpu, machine } => write!(
                formatter,
                "{token:?} in the CPU list {list:?} contains CPU {cpu}, which is not one of this machine: it has \
                 {machine}"
            ),
            Reason::Stride => write!(
                formatter,
                "{token:?} in the CPU list {list:?} has no stride like \"0-15:2/4\": the first 2 of every 4"
            ),
        }
    }
}

impl std::error::Error for ListError {}

/// Parses a list: numbers and ranges with commas between them, `0-3,8,10-11`.
///
/// As the kernel does, the parser accepts strides (`0-15:2/4` is the first two of every four CPUs), any order and
/// repeated CPUs. White space around the list is ignored, and an empty list is the empty set. The forms that depend on
/// a machine, `N` and `all`, are for [`parse_within`](CpuSet::parse_within).
impl FromStr for CpuSet {
    type Err = ListError;

    fn from_str(list: &str) -> Result<Self, ListError> {
        parse(list.trim(), None)
    }
}

impl CpuSet {
    /// Reads a list of CPUs that a person typed, and checks that `machine` has all of them.
    ///
    /// The list may contain `all`, for all CPUs of the machine, and `N`, for its last CPU, like the kernel's
    /// parameters:
    ///
    /// ```
    /// use tickless::topology::CpuSet;
    ///
    /// let machine: CpuSet = "0-7".parse()?;
    /// let isolated = CpuSet::parse_within("1,4-N", &machine)?;
    /// assert_eq!(isolated.to_string(), "1,4-7");
    /// assert_eq!(CpuSet::parse_within("all:1/2", &machine)?.to_string(), "0,2,4,6");
    /// # Ok::<(), tickless::topology::ListError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ListError`] if the list is empty, cannot be read or names a CPU that is not in `machine`; the error names the
    /// wrong part and a correct one.
    pub fn parse_within(list: &str, machine: &Self) -> Result<Self, ListError> {
        let list = list.trim();
        if list.is_empty() {
            return Err(ListError {
                list: list.to_owned(),
                token: list.to_owned(),
                reason: Reason::NoCpu,
            });
        }
        parse(list, Some(machine))
    }
}

fn parse(list: &str, machine: Option<&CpuSet>) -> Result<CpuSet, ListError> {
    let mut set = CpuSet::new();
    if list.is_empty() {
        return Ok(set);
    }
    for token in list.split(',') {
        let fail = |reason| ListError {
            list: list.to_owned(),
            token: token.to_owned(),
            reason,
        };
        let span = span(token, machine).map_err(fail)?;
        for cpu in span.cpus() {
            match machine.filter(|machine| !machine.contains(cpu)) {
                None => set.insert(cpu),
                // `all` is what there is.
                Some(_) if span.is_all => {}
                Some(machine) => {
                    let machine = machine.clone();
                    return Err(fail(Reason::Beyond { cpu, machine }));
                }
            }
        }
    }
    Ok(set)
}

/// The meaning of one token of a list.
struct Span {
    first: u32,
    last: u32,
    /// The stride: the number of CPUs that are used, and the size of the group from which they are used.
    take: (u32, u32),
    /// True if the token is `all`, which names no particular CPU.
    is_all: bool,
}

impl Span {
    fn cpus(&self) -> impl Iterator<Item = u32> {
        let Self {
            first, last, take, ..
        } = *self;
        let (used, group) = take;
        (first..=last).filter(move |cpu| (cpu - first) % group < used)
    }
}

/// The name of the last CPU.
const LAST: &str = "N";
/// The name of the whole machine, in any case of letters.
const ALL: &str = "all";

fn span(token: &str, machine: Option<&CpuSet>) -> Result<Span, Reason> {
    if token.trim().is_empty() {
        return Err(Reason::Empty);
    }
    let (range, stride) = match token.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (token, None),
    };
    let is_all = range.eq_ignore_ascii_case(ALL);
    let (first, last) = match range.split_once('-') {
        _ if is_all => ("0", LAST),
        Some((first, last)) => (first, last),
        None => (range, range),
    };
    let (from, to) = (cpu(first, machine)?, cpu(last, machine)?);
    if to < from && last == LAST {
        return Err(Reason::BehindLast(to));
    }
    if to < from {
        let (first, last) = (first.to_owned(), last.to_owned());
        return Err(Reason::Reversed { first, last });
    }
    let take = match stride {
        None => (1, 1),
        Some(stride) => {
            let (used, group) = stride.split_once('/').ok_or(Reason::Stride)?;
            let (used, group) = (number(used)?, number(group)?);
            if used == 0 || used > group {
                return Err(Reason::Stride);
            }
            (used, group)
        }
    };
    Ok(Span {
        first: from,
        last: to,
        take,
        is_all,
    })
}

/// Returns a CPU by its number, or the last CPU.
fn cpu(word: &str, machine: Option<&CpuSet>) -> Result<u32, Reason> {
    if word == LAST {
        let last = machine.and_then(CpuSet::last);
        return last.ok_or(Reason::DependsOnMachine);
    }
    number(word)
}

fn number(digits: &str) -> Result<u32, Reason> {
    // `parse` would take a plus sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Reason::NotANumber);
    }
    match digits.parse() {
        Ok(cpu) if cpu < CPUS_MAX => Ok(cpu),
        // Digits only: what does not fit is too large.
        _ => Err(Reason::TooLarge),
    }
}
