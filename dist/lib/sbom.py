"""The software bill of materials of the binary: CycloneDX 1.6, as JSON."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalContact
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from .project import URL, Crate
from .release import Release

# What is in guest.wasm and in the tables of crates/locale, which NOTICE describes: names, versions, licenses and addresses.
_PARTS = {
    "execbox-quickjs": [
        ("quickjs-ng", "0.16.2", "MIT", "https://github.com/quickjs-ng/quickjs"),
        (
            "wasi-libc",
            None,
            "Apache-2.0 WITH LLVM-exception AND MIT AND BSD-2-Clause",
            "https://github.com/WebAssembly/wasi-libc",
        ),
    ],
    "execbox-locale": [("cldr", "48.2", "Unicode-3.0", "https://cldr.unicode.org")],
}


def bill(release: Release, crates: list[Crate]) -> str:
    """The document, checked against the schema of CycloneDX. The same crates always give the same text."""
    version, target = release.version, release.platform.target
    components = {(crate.name, crate.version): _component(crate) for crate in crates}
    binary = Component(
        name="execbox",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="execbox",
        licenses=[LicenseFactory().make_with_expression("MIT")],
        purl=PackageURL("generic", None, "execbox", version, {"target": target}),
        external_references=[_reference(ExternalReferenceType.VCS, URL)],
    )
    bom = Bom(components=components.values())
    bom.metadata.component = binary
    bom.metadata.timestamp = datetime.fromtimestamp(release.time, timezone.utc)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{URL}/{version}/{target}/{release.time}")
    bom.register_dependency(binary, [components["execbox-cli", version]])
    for crate in crates:
        parts = [_part(*part) for part in _PARTS.get(crate.name, ())]
        for part in parts:
            bom.components.add(part)
            bom.register_dependency(part)
        bom.register_dependency(
            components[crate.name, crate.version], [*(components[each] for each in crate.dependencies), *parts]
        )
    return _checked(JsonV1Dot6(bom).output_as_string(indent=2))


def _component(crate: Crate) -> Component:
    return Component(
        name=crate.name,
        version=crate.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{crate.name}@{crate.version}",
        licenses=[LicenseFactory().make_with_expression(crate.license)],
        purl=PackageURL("cargo", None, crate.name, crate.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=crate.checksum)] if crate.checksum else [],
        authors=[OrganizationalContact(name=author) for author in crate.authors],
        external_references=[_reference(ExternalReferenceType.VCS, crate.repository)] if crate.repository else [],
    )


def _part(name: str, version: str | None, license: str, url: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.DATA if name == "cldr" else ComponentType.LIBRARY,
        bom_ref=name,
        licenses=[LicenseFactory().make_with_expression(license)],
        purl=PackageURL("generic", None, name, version),
        external_references=[_reference(ExternalReferenceType.WEBSITE, url)],
    )


def _reference(type: ExternalReferenceType, url: str) -> ExternalReference:
    return ExternalReference(type=type, url=XsUri(url))


def _checked(text: str) -> str:
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if errors:
        raise SystemExit(f"error: the bill of materials breaks the schema of CycloneDX: {errors}")
    return text + "\n"
