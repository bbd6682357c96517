#!/usr/bin/env bash
# Prints a software bill of materials (SPDX 2.3, JSON) of attnd and of every
# Debian package that is installed here.  The Dockerfile runs it in the image it
# makes, from dpkg's own data.
#
# usage: sbom.sh VERSION REVISION CREATED
#   CREATED   2026-01-31T12:00:00Z
set -euo pipefail
version=$1 revision=$2 created=$3

# Text as it stands in a JSON string.
quoted() {
  local text=$1
  text=${text//\\/\\\\} text=${text//\"/\\\"} text=${text//$'\t'/ }
  printf '"%s"' "$text"
}

cat <<HEAD
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": $(quoted "attnd-$version"),
  "documentNamespace": $(quoted "https://attnd.dev/sbom/$version/$revision/$created"),
  "creationInfo": {"created": $(quoted "$created"), "creators": ["Tool: attnd-deploy/sbom.sh"]},
  "packages": [
    {"SPDXID": "SPDXRef-attnd", "name": "attnd", "versionInfo": $(quoted "$version"),
     "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
     "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
     "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
     "sourceInfo": $(quoted "revision $revision")}
HEAD

relations='    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-attnd"}'
while IFS='|' read -r name package_version architecture source source_version maintainer; do
  id=SPDXRef-deb-${name//[^a-zA-Z0-9.-]/-}-$architecture
  purl="pkg:deb/debian/${name//+/%2B}@${package_version//+/%2B}?arch=$architecture&distro=debian-12"
  cat <<PACKAGE
    ,{"SPDXID": $(quoted "$id"), "name": $(quoted "$name"), "versionInfo": $(quoted "$package_version"),
     "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
     "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
     "copyrightText": "NOASSERTION", "supplier": $(quoted "Person: $maintainer"),
     "sourceInfo": $(quoted "built from Debian source $source $source_version"),
     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                       "referenceLocator": $(quoted "$purl")}]}
PACKAGE
  relations+=$',\n    {"spdxElementId": "SPDXRef-attnd", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": '"$(quoted "$id")}"
done < <(dpkg-query -W -f='${db:Status-Status}|${Package}|${Version}|${Architecture}|${source:Package}|${source:Version}|${Maintainer}\n' |
  sed -n 's/^installed|//p' | LC_ALL=C sort)

printf '  ],\n  "relationships": [\n%s\n  ]\n}\n' "$relations"
