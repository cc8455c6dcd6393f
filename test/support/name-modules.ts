/** The functions that make or read names of files. */
import { checkPath } from '../../src/base/checks.js';
import { liesInside } from '../../src/base/files/lies-inside.js';
import { firstAlike } from '../../src/base/files/portable-name.js';
import { placeBeside } from '../../src/cli/commands/models/pull.js';
import { targetsOf } from '../../src/cli/commands/draw/segment.js';
import { featurePath, isShardFile } from '../../src/datasets/files/file-names.js';
import { folderName, folderNames } from '../../src/datasets/records/folder-name.js';
import { staysInside } from '../../src/datasets/records/locate-file.js';
import { nameEntry } from '../../src/datasets/sources/archives/archive-entry.js';
import { itemOfEntry } from '../../src/photos/feeds/items/entries.js';
import { CachedRepository } from '../../src/learn/hub/hub-cache.js';
import { isRelativePath, parseRepositoryReference } from '../../src/learn/hub/repository-reference.js';
import { WHEEL_CONTENTS } from '../../src/learn/hub/wheels/engine-files.js';
import { checkExternalLocations, locateExternal } from '../../src/onnx/file/external-data.js';
import { pathInside } from '../../src/products/pages/report/sections/thumbnails.js';

export const modulesOf = () => ({
  checkPath,
  liesInside,
  firstAlike,
  placeBeside,
  targetsOf,
  featurePath,
  isShardFile,
  folderName,
  folderNames,
  staysInside,
  nameEntry,
  itemOfEntry,
  CachedRepository,
  isRelativePath,
  parseRepositoryReference,
  WHEEL_CONTENTS,
  checkExternalLocations,
  locateExternal,
  pathInside,
});
