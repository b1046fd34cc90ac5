//! The kernel's modules that a guest needs, in the order in which they can be loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::guest::GuestKind;

/// The modules that are asked for; those that they depend on come before them.
pub(super) const fn wanted(kind: GuestKind) -> &'static [&'static str] {
    match kind {
        // `rdma_rxe` computes its checksums with the first, which no dependency names; the second
        // is the card of a guest without neighbours.
        GuestKind::Rdma => &["crc32_generic", "dummy", "virtio_pci", "virtio_net", "rdma_rxe", "rdma_ucm"],
        // The drivers from which cards are taken, and what hands them over.
        GuestKind::PciCards => &["e1000e", "virtio_pci", "vfio_iommu_type1", "vfio_pci"],
    }
}

/// The modules of a kernel, by name.
#[derive(Debug)]
pub(super) struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Modules {
    /// The modules below a folder `lib/modules/VERSION`.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(folder, &mut files)?;
        Ok(Self { folder: folder.into(), files })
    }

    /// The files to load one after the other, so that all of `wanted` are there.
    pub(super) fn in_order(&self, wanted: &[&str]) -> Result<Vec<&Path>> {
        let mut order = Vec::new();
        wanted.iter().try_for_each(|name| self.visit(name, &mut order))?;
        Ok(order)
    }

    fn visit<'a>(&'a self, name: &str, order: &mut Vec<&'a Path>) -> Result<()> {
        let Some(file) = self.files.get(name) else {
            bail!("the kernel in {} has no module {name}.ko", self.folder.display());
        };
        if order.contains(&file.as_path()) {
            return Ok(());
        }
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        for below in
            depends(&bytes).with_context(|| format!("{} does not say what it depends on", file.display()))?
        {
            self.visit(&below, order)?;
        }
        order.push(file);
        Ok(())
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = entry.file_name().to_string_lossy().strip_suffix(".ko") {
            files.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

/// Returns the modules that a module says it depends on: `depends=A,B` in its section `.modinfo`, a
/// text that ends with a zero byte.
fn depends(module: &[u8]) -> Option<Vec<String>> {
    const MARK: &[u8] = b"\0depends=";
    let start = module.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let text = module.get(start..)?.split(|byte| *byte == 0).next()?;
    let text = core::str::from_utf8(text).ok()?;
    Some(text.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aldis_shell::children::Folder;

    #[test]
    fn modules_come_after_what_they_depend_on_and_once() {
        let folder = Folder::new().unwrap();
        let module = |name: &str, depends: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name={name}\0");
            fs::create_dir_all(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(format!("{name}.ko")), text).unwrap();
        };
        module("ib-core", "");
        module("ib_uverbs", "ib-core");
        module("rdma_rxe", "ib_uverbs,ib_core");
        let modules = Modules::of(folder.path()).unwrap();
        let order = modules.in_order(&["rdma_rxe", "ib_core"]).unwrap();
        let names: Vec<_> = order.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["ib-core", "ib_uverbs", "rdma_rxe"]);
        let error = modules.in_order(&["virtio_net"]).unwrap_err().to_string();
        assert!(error.contains("no module virtio_net.ko"), "{error}");
    }
}
