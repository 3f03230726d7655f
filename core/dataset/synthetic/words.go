package synthetic

// The words of the world. No word is in two lists, so that a word says what kind of thing it names; all are plain
// ASCII. The lists fix the bits of every world: a change to them is a change of the data.
var (
	womensNames = []string{
		"Ada", "Alice", "Amelia", "Anna", "Beatrice", "Bella", "Clara", "Cora", "Daphne", "Diana", "Edith", "Elena", "Emma", "Esther", "Fiona",
		"Flora", "Greta", "Hannah", "Helen", "Ida", "Irene", "Iris", "Jane", "Julia", "Karen", "Laura", "Lucy", "Maria", "Martha", "Nina", "Nora",
		"Olga", "Paula", "Rosa", "Ruth", "Sara", "Sophie", "Tessa", "Vera", "Wanda",
	}
	mensNames = []string{
		"Adam", "Albert", "Arthur", "Boris", "Bruno", "Carl", "Conrad", "Daniel", "David", "Edgar", "Emil", "Felix", "Frank", "George", "Gustav",
		"Harold", "Henry", "Hugo", "Igor", "Isaac", "Jacob", "John", "Julian", "Kurt", "Leon", "Louis", "Lucas", "Martin", "Max", "Nathan",
		"Oscar", "Otto", "Paul", "Peter", "Ralph", "Robert", "Simon", "Thomas", "Victor", "Walter",
	}
	surnames = []string{
		"Abbott", "Adler", "Allen", "Arnold", "Barlow", "Becker", "Bennett", "Berger", "Blake", "Bolton", "Bowen", "Brandt", "Burke", "Carson",
		"Carter", "Clayton", "Colby", "Conway", "Crosby", "Dalton", "Dawson", "Dixon", "Doyle", "Duncan", "Eaton", "Eliot", "Farrell", "Fischer",
		"Fleming", "Foster", "Garland", "Gibson", "Gordon", "Graham", "Grant", "Hahn", "Hansen", "Harper", "Hartman", "Hayden", "Hoffman", "Holt",
		"Hudson", "Ingram", "Jansen", "Jensen", "Keller", "Kepler", "Kramer", "Lambert", "Larsen", "Lehman", "Lindberg", "Lowell", "Madsen",
		"Marlow", "Mercer", "Miller", "Morgan", "Nolan", "Norton", "Olsen", "Osborn", "Palmer", "Parker", "Porter", "Quinn", "Ramsey", "Richter",
		"Russo", "Sawyer", "Schmidt", "Shelby", "Sutton", "Tanner", "Turner", "Vogel", "Wagner", "Walker", "Weber",
	}
	countries = []struct {
		name   string
		cities [3]string
	}{
		{"Austria", [3]string{"Vienna", "Graz", "Linz"}},
		{"Canada", [3]string{"Toronto", "Quebec", "Halifax"}},
		{"Chile", [3]string{"Santiago", "Temuco", "Arica"}},
		{"Denmark", [3]string{"Odense", "Aarhus", "Esbjerg"}},
		{"Egypt", [3]string{"Cairo", "Luxor", "Aswan"}},
		{"England", [3]string{"Bristol", "York", "Exeter"}},
		{"Finland", [3]string{"Turku", "Oulu", "Tampere"}},
		{"France", [3]string{"Lyon", "Nantes", "Bordeaux"}},
		{"Germany", [3]string{"Bremen", "Dresden", "Cologne"}},
		{"Greece", [3]string{"Athens", "Patras", "Corinth"}},
		{"Hungary", [3]string{"Szeged", "Pecs", "Eger"}},
		{"Ireland", [3]string{"Dublin", "Cork", "Galway"}},
		{"Italy", [3]string{"Verona", "Genoa", "Turin"}},
		{"Japan", [3]string{"Osaka", "Kyoto", "Nagoya"}},
		{"Norway", [3]string{"Oslo", "Bergen", "Narvik"}},
		{"Poland", [3]string{"Gdansk", "Lublin", "Krakow"}},
		{"Portugal", [3]string{"Porto", "Braga", "Coimbra"}},
		{"Scotland", [3]string{"Dundee", "Glasgow", "Perth"}},
		{"Spain", [3]string{"Seville", "Malaga", "Granada"}},
		{"Sweden", [3]string{"Uppsala", "Malmo", "Lund"}},
	}
	// professions come with the kind of work that they make.
	professions = []profession{
		{"architect", "tower"}, {"astronomer", "map"}, {"chef", "dessert"}, {"composer", "opera"}, {"dancer", "ballet"}, {"director", "film"},
		{"engineer", "bridge"}, {"gardener", "garden"}, {"historian", "book"}, {"inventor", "machine"}, {"jeweller", "ring"},
		{"journalist", "report"}, {"novelist", "novel"}, {"painter", "painting"}, {"poet", "poem"}, {"potter", "vase"}, {"printer", "poster"},
		{"sculptor", "statue"}, {"singer", "song"}, {"weaver", "carpet"},
	}
	subjects = []string{
		"biology", "botany", "chemistry", "economics", "geography", "geology", "history", "law", "literature", "logic", "mathematics", "medicine",
		"philosophy", "physics", "theology",
	}
	instruments = []string{
		"accordion", "banjo", "cello", "clarinet", "drum", "flute", "guitar", "harp", "mandolin", "oboe", "organ", "piano", "trumpet", "violin",
	}
	// A work's title is an adjective and a noun.
	titleAdjectives = []string{
		"Ancient", "Broken", "Burning", "Crimson", "Crooked", "Distant", "Empty", "Frozen", "Gentle", "Golden", "Hidden", "Hollow", "Lonely",
		"Narrow", "Painted", "Quiet", "Restless", "Secret", "Shining", "Silent", "Silver", "Sleeping", "Wandering", "Winter",
	}
	titleNouns = []string{
		"Candle", "Castle", "Desert", "Feather", "Forest", "Harbour", "Horizon", "Island", "Journey", "Kingdom", "Lantern", "Letter", "Meadow",
		"Mirror", "Mountain", "Ocean", "Orchard", "Promise", "River", "Shadow", "Summer", "Thunder", "Valley", "Window",
	}
	// An event's name is its own word and its kind; the kinds take turns.
	eventNames = []string{
		"Amber", "Cedar", "Copper", "Coral", "Eagle", "Falcon", "Granite", "Ivory", "Jasmine", "Lotus", "Maple", "Marble", "Olive", "Orchid",
		"Pearl", "Raven", "Saffron", "Tulip", "Velvet", "Willow",
	}
	eventKinds = []string{"Festival", "Fair", "Games", "Congress"}
	months     = []string{"April", "May", "June", "July", "August", "September"}
)
