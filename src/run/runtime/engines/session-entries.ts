/** Configuration entries of a session, the same for each binding of ONNX Runtime. */
import { savingOptions } from '../lanes/prepared-files.js';
import type { LaneDescription } from '../lanes/protocol.js';

/** The user's entries, and those that the description of the session means: nested objects of texts. */
export function configEntries({
  session: { extra },
  externalFolder,
  saveTo,
}: LaneDescription): Record<string, unknown> {
  const folder =
    externalFolder === undefined ? {} : { model_external_initializers_file_folder_path: externalFolder };
  const saving = saveTo === undefined ? {} : savingOptions(saveTo).entries;
  return {
    ...extra,
    session: { ...(extra['session'] as Record<string, unknown> | undefined), ...folder, ...saving },
  };
}
